//! `memory://`: locks of one process, for tests and local runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::timeout_at;

use super::{Acquired, BoxFuture, Claim, Owned, Release, Renewal, Renewed, Store, StoreError};
use crate::fence::Fence;
use crate::key::Key;
use crate::sync::{NO_RUNTIME, lock};
use crate::token::Token;

/// Keeps locks in the memory of this process.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore(Mutex<Locks>);

#[derive(Debug, Default)]
struct Locks {
    by_key: HashMap<Key, Lock>,
    /// How many entries there may be before unused ones are removed.
    sweep_at: usize,
    last_fence: u64,
}

#[derive(Debug, Default)]
struct Lock {
    held: Option<Held>,
    /// Notified when the lock is released. Each waiter keeps a clone.
    freed: Arc<Notify>,
}

/// The outcome of one try to take a lock.
enum TakeOutcome {
    Granted(Fence),
    Busy { held: Held, freed: OwnedNotified },
}

#[derive(Debug, Clone, Copy)]
struct Held {
    by: Token,
    until: Instant,
}

impl Lock {
    fn held(&self) -> Option<Held> {
        self.held.filter(|held| held.until > Instant::now())
    }

    fn is_needed(&self) -> bool {
        self.held().is_some() || Arc::strong_count(&self.freed) > 1
    }
}

impl Locks {
    /// Takes the lock if it is free.
    fn take(&mut self, claim: &Claim) -> TakeOutcome {
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, lock| lock.is_needed());
            self.sweep_at = self.by_key.len() * 2 + 64;
        }
        let lock = self.by_key.entry(claim.key.clone()).or_default();
        if let Some(held) = lock.held() {
            // Subscribed under the mutex, so that no release is missed.
            return TakeOutcome::Busy { held, freed: Arc::clone(&lock.freed).notified_owned() };
        }
        lock.held = Some(Held { by: claim.token, until: Instant::now() + claim.ttl });
        TakeOutcome::Granted(self.next_fence())
    }

    /// Starts from the current time, as Redis does, so that fences grow from one run of a program
    /// to the next.
    fn next_fence(&mut self) -> Fence {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = time.as_micros().try_into().unwrap_or(u64::MAX);
        self.last_fence = time.max(self.last_fence.saturating_add(1));
        Fence::new(self.last_fence)
    }

    /// The hold of `token`, if it holds the lock.
    fn held_by(&mut self, key: &Key, token: Token) -> Option<&mut Held> {
        let lock = self
            .by_key
            .get_mut(key)
            .filter(|lock| lock.held().is_some_and(|held| held.by == token))?;
        lock.held.as_mut()
    }

    fn renew(&mut self, key: &Key, token: Token, ttl: Duration) -> Owned {
        let Some(held) = self.held_by(key, token) else { return Owned::No };
        held.until = Instant::now() + ttl;
        Owned::Yes
    }

    fn release(&mut self, release: &Release) -> Owned {
        let Release { key, token, .. } = release;
        if let Some(keep) = release.keep() {
            let owned = self.renew(key, *token, keep);
            if let Some(lock) = self.by_key.get(key) {
                // The lock may now expire earlier than the waiters expect.
                lock.freed.notify_waiters();
            }
            return owned;
        }
        if self.held_by(key, *token).is_none() {
            return Owned::No;
        }
        if let Some(mut lock) = self.by_key.remove(key) {
            lock.held = None;
            if lock.is_needed() {
                lock.freed.notify_one();
                self.by_key.insert(key.clone(), lock);
            }
        }
        Owned::Yes
    }
}

impl MemoryStore {
    async fn wait_for(&self, claim: &Claim) -> Result<Acquired, StoreError> {
        loop {
            let sent = Instant::now();
            let (held, freed) = match lock(&self.0).take(claim) {
                TakeOutcome::Granted(fence) => return Ok(Acquired::Granted { sent, fence }),
                TakeOutcome::Busy { held, freed } => (held, freed),
            };
            let until = claim.wait_until.map_or(held.until, |until| until.min(held.until));
            let was_freed = until > sent && {
                Handle::try_current().map_err(|_| StoreError::Refused(NO_RUNTIME.into()))?;
                timeout_at(until.into(), freed).await.is_ok()
            };
            if !was_freed && claim.wait_until.is_some_and(|until| until <= Instant::now()) {
                let expires_in = Some(held.until.saturating_duration_since(Instant::now()));
                return Ok(Acquired::Busy { holder: Some(held.by.to_string().into()), expires_in });
            }
        }
    }
}

impl Store for MemoryStore {
    fn name(&self) -> &'static str {
        "memory://"
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(self.wait_for(claim))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Renewed>> {
        let mut locks = lock(&self.0);
        let renew = |lease: &Renewal| Ok(locks.renew(&lease.key, lease.token, lease.ttl));
        let renewed = leases.iter().map(renew).collect();
        Box::pin(std::future::ready(renewed))
    }

    fn release<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Owned, StoreError>> {
        Box::pin(std::future::ready(Ok(lock(&self.0).release(release))))
    }
}
