//! One operation of a client: it takes a lock, increments the counter, and releases the lock.

use std::panic;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use lock_runtime::{Lease, LockError, redis_lock};
use tokio::select;

use crate::client::Client;
use crate::history::{Attempt, Event, Key, now};
use crate::resource::{Connection, Request};
use crate::{KEYS, TTL, millis, name};

/// Interval at which a holder checks its lease.
const STEP: Duration = millis(20);
/// The maximum lengths of a body in milliseconds: a long one outlasts its ttl and is renewed.
const SHORT: u64 = 20;
const LONG: u64 = 1_800;

/// What a client does with a lock, chosen at random.
#[derive(Debug)]
pub(crate) struct Operation {
    client: Arc<Client>,
    attempt: Attempt,
    pub(crate) key: Key,
    pub(crate) usage: Usage,
    wait: Duration,
    length: Duration,
    /// Whether the body blocks its thread, so that it cannot be stopped when the lease is lost.
    blocks: bool,
    panics: bool,
}

/// The API that holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The attribute.
    Attribute,
    /// A guard that is released.
    Guard,
    /// A guard that is forgotten, so that only `max_hold` ends it.
    Forget,
}

/// The payload of a panic that an operation raises on purpose.
#[derive(Debug)]
pub(crate) struct PlannedPanic;

impl Operation {
    pub(crate) fn random(client: &Arc<Client>, attempt: Attempt, random: &mut Rng) -> Self {
        let usage = match random.u8(..40) {
            0 => Usage::Forget,
            1..20 => Usage::Attribute,
            _ => Usage::Guard,
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
            // The minimum makes some locks contended and leaves others mostly free.
            key: random.usize(..KEYS).min(random.usize(..KEYS)),
            usage,
            wait,
            length: millis(random.u64(..longest)),
            blocks: random.u8(..3) == 0,
            panics: random.u8(..12) == 0,
        }
    }

    pub(crate) async fn run(self) -> Result<(), LockError> {
        let request = self.client.locks.lock(name(self.key)).ttl(TTL).wait(self.wait);
        match self.usage {
            Usage::Attribute => self.locked().await,
            Usage::Guard => {
                let guard = request.await?;
                guard.run(self.increment(&guard.lease())).await?;
                guard.release().await
            }
            Usage::Forget => {
                let guard = request.max_hold(self.length.max(STEP)).await?;
                let lease = guard.lease();
                std::mem::forget(guard);
                self.hold_until_lost(&lease).await;
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
        self.increment(&lease).await;
        Ok(())
    }

    /// Reads the counter and, after the length of the operation, writes its successor.
    async fn increment(&self, lease: &Lease) {
        let hold = Hold::begin(self, lease);
        let mut resource = Connection::open(&self.client.options.dir);
        let fence = lease.fence().get();
        let read = Request { attempt: self.attempt, key: self.key, fence, write: None };
        let Some(count) = resource.send(&read) else { return };
        let begin = Instant::now();
        while let Some(left) = self.length.checked_sub(begin.elapsed()) {
            self.sleep(left.min(STEP)).await;
            hold.record_deadline();
        }
        if self.panics {
            // Skips the panic hook, so that no message is printed.
            panic::resume_unwind(Box::new(PlannedPanic));
        }
        let write = Request { write: Some(count + 1), ..read };
        if let Some(value) = resource.send(&write) {
            let Self { attempt, key, .. } = *self;
            self.client.log.record(Event::Confirmed { attempt, key, value });
        }
    }

    async fn hold_until_lost(&self, lease: &Lease) {
        let hold = Hold::begin(self, lease);
        loop {
            select! {
                _ = lease.lost() => return,
                () = tokio::time::sleep(STEP) => hold.record_deadline(),
            }
        }
    }

    async fn sleep(&self, duration: Duration) {
        if self.blocks {
            thread::sleep(duration);
        } else {
            tokio::time::sleep(duration).await;
        }
    }
}

/// A recorded hold. Dropping it records the end, so that a panic and a cancellation are covered.
struct Hold<'a> {
    operation: &'a Operation,
    lease: &'a Lease,
}

impl<'a> Hold<'a> {
    fn begin(operation: &'a Operation, lease: &'a Lease) -> Self {
        let Operation { attempt, key, .. } = *operation;
        let (at, fence) = (now(), lease.fence().get());
        let deadline = at + lease.remaining();
        operation.client.log.record_at(at, Event::Granted { attempt, key, fence, deadline });
        Self { operation, lease }
    }

    fn record_deadline(&self) {
        // The clock is read first, so that the recorded deadline is never later than the lease's.
        let at = now();
        let deadline = at + self.lease.remaining();
        let attempt = self.operation.attempt;
        self.operation.client.log.record_at(at, Event::Holds { attempt, deadline });
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.operation.client.log.record(Event::Ended { attempt: self.operation.attempt });
    }
}
