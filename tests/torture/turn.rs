//! One turn of a client: it asks for a lock, counts under it, and gives it back or fails to.

use std::panic;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use lock_runtime::{Lease, LockError, redis_lock};
use tokio::select;

use crate::client::Client;
use crate::history::{Attempt, Event, Key, now};
use crate::resource::{Access, Request};
use crate::{KEYS, TTL, millis, name};

/// How often a holder looks at its lease.
const STEP: Duration = millis(20);
/// How many milliseconds a body may take: most are short, and many others are renewed.
const SHORT: u64 = 20;
const LONG: u64 = 1_800;

/// What a client does next.
#[derive(Debug)]
pub(crate) struct Turn {
    client: Arc<Client>,
    attempt: Attempt,
    pub(crate) key: Key,
    pub(crate) way: Way,
    wait: Duration,
    length: Duration,
    /// Whether the body blocks its thread, and so cannot be stopped when the lease is lost.
    blocks: bool,
    panics: bool,
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// With the attribute.
    Attribute,
    /// In a guard that is released.
    Guard,
    /// In a guard that is forgotten, until `max_hold` ends that.
    Forget,
}

/// What a body panics with where that is the plan.
#[derive(Debug)]
pub(crate) struct Intended;

impl Turn {
    pub(crate) fn random(client: &Arc<Client>, attempt: Attempt, random: &mut Rng) -> Self {
        let way = match random.u8(..40) {
            0 => Way::Forget,
            1..20 => Way::Attribute,
            _ => Way::Guard,
        };
        let wait = match random.u8(..4) {
            0 => Duration::ZERO,
            1 => millis(random.u64(..300)),
            _ => millis(random.u64(..4_000)),
        };
        let longest = if random.u8(..4) == 0 { LONG } else { SHORT };
        Self {
            client: Arc::clone(client),
            attempt,
            // Some locks are in demand, and others are mostly free.
            key: random.usize(..KEYS).min(random.usize(..KEYS)),
            way,
            wait,
            length: millis(random.u64(..longest)),
            blocks: random.u8(..3) == 0,
            panics: random.u8(..12) == 0,
        }
    }

    pub(crate) async fn take(self) -> Result<(), LockError> {
        let request = self.client.locks.lock(name(self.key)).ttl(TTL).wait(self.wait);
        match self.way {
            Way::Attribute => self.locked().await,
            Way::Guard => {
                let guard = request.await?;
                guard.run(self.count(&guard.lease())).await?;
                guard.release().await
            }
            Way::Forget => {
                let guard = request.max_hold(self.length.max(STEP)).await?;
                let lease = guard.lease();
                std::mem::forget(guard);
                self.outlast(&lease).await;
                Ok(())
            }
        }
    }

    #[redis_lock(
        key = "torture:<self.key>",
        ttl = TTL,
        wait = self.wait,
        manager = self.client.locks,
        lease = lease
    )]
    async fn locked(&self) -> Result<(), LockError> {
        self.count(&lease).await;
        Ok(())
    }

    /// Reads the counter and, some time later, writes one more.
    async fn count(&self, lease: &Lease) {
        let claim = Claim::begin(self, lease);
        let mut access = Access::open(&self.client.options.dir);
        let fence = lease.fence().get();
        let read = Request { attempt: self.attempt, key: self.key, fence, write: None };
        let Some(count) = access.ask(&read) else { return };
        let begin = Instant::now();
        while let Some(left) = self.length.checked_sub(begin.elapsed()) {
            self.pause(left.min(STEP)).await;
            claim.look();
        }
        if self.panics {
            // Without the message that goes with a panic.
            panic::resume_unwind(Box::new(Intended));
        }
        let write = Request { write: Some(count + 1), ..read };
        if let Some(value) = access.ask(&write) {
            let Self { attempt, key, .. } = *self;
            self.client.log.note(Event::Confirmed { attempt, key, value });
        }
    }

    /// Holds a lock until it is lost.
    async fn outlast(&self, lease: &Lease) {
        let claim = Claim::begin(self, lease);
        loop {
            select! {
                _ = lease.lost() => return,
                () = tokio::time::sleep(STEP) => claim.look(),
            }
        }
    }

    async fn pause(&self, duration: Duration) {
        if self.blocks {
            thread::sleep(duration);
        } else {
            tokio::time::sleep(duration).await;
        }
    }
}

/// A holder's claim to a lock, noted from its begin to its end, whatever ends it.
struct Claim<'a> {
    turn: &'a Turn,
    lease: &'a Lease,
}

impl<'a> Claim<'a> {
    fn begin(turn: &'a Turn, lease: &'a Lease) -> Self {
        let Turn { attempt, key, .. } = *turn;
        let (at, fence) = (now(), lease.fence().get());
        let deadline = at + lease.remaining();
        turn.client.log.note_at(at, Event::Granted { attempt, key, fence, deadline });
        Self { turn, lease }
    }

    fn look(&self) {
        // The clock first: so the deadline is not later than the lease's own.
        let at = now();
        let deadline = at + self.lease.remaining();
        let attempt = self.turn.attempt;
        self.turn.client.log.note_at(at, Event::Holds { attempt, deadline });
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.turn.client.log.note(Event::Ended { attempt: self.turn.attempt });
    }
}
