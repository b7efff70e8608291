//! [`Attempts`]: the attempts of one request, and the clean-up after an unknown outcome.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use crate::error::{LockError, Step};
use crate::key::Key;
use crate::lease::clock::Moment;
use crate::lease::shared::{Grant, SharedLease};
use crate::lease::terms::Terms;
use crate::lease::watchdog::ReleaseJob;
use crate::manager::LockManager;
use crate::store::{Acquired, Claim, Owned, Release, StoreError};
use crate::token::Token;

/// The longest outage that a request with a wait tolerates, in timeouts.
const MAX_OUTAGE: u32 = 5;
/// How long a request may take beyond its wait, in timeouts.
const MAX_OVERRUN: u32 = 3;
/// How many grants in a row may arrive after their leases have run out. The store is then too slow
/// for this ttl, and further attempts would only keep the lock from other clients.
const MAX_LATE: u32 = 3;
/// The delay after a failed attempt of a request with a wait.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The outcome of one attempt that has not failed for good.
enum Attempted {
    Granted(Arc<SharedLease>),
    /// There is time for another attempt, under a new token.
    Again,
    Failed(Failure),
}

/// Why an attempt failed.
struct Failure {
    error: StoreError,
    /// When the store last replied while the request waited.
    replied: Option<Instant>,
    /// Whether the grant arrived too late.
    late: bool,
}

/// A valid request, and the attempts that it makes.
pub(crate) struct Attempts<'a> {
    pub(crate) manager: &'a LockManager,
    pub(crate) key: &'a Key,
    pub(crate) template: Option<&'static str>,
    pub(crate) terms: Terms,
    pub(crate) started: Instant,
    /// How long to wait; `None`: without a limit.
    pub(crate) wait_until: Option<Instant>,
}

impl Attempts<'_> {
    /// Makes attempts until the store has granted the lock or refused it for good. The retries take
    /// no longer than [`MAX_OVERRUN`] beyond the wait.
    pub(crate) async fn run(&self) -> Result<Arc<SharedLease>, LockError> {
        let watchdog = self.manager.watchdog();
        watchdog.start().map_err(|error| self.failed(StoreError::Refused(error.into())))?;
        let failure = match self.attempt_until_failure().await? {
            Ok(lease) => return Ok(lease),
            Err(failure) => failure,
        };
        let overrun = self.manager.timeout() * MAX_OVERRUN;
        let limit = self.wait_until.and_then(|until| until.checked_add(overrun));
        match limit {
            // Without a runtime there are no timers, and stores that need them fail at once.
            Some(limit) if runtime::Handle::try_current().is_ok() => {
                let granted = timeout_at(limit.into(), self.retry(failure)).await;
                granted.unwrap_or_else(|_| Err(self.failed(StoreError::no_reply())))
            }
            _ => self.retry(failure).await,
        }
    }

    async fn retry(&self, mut failure: Failure) -> Result<Arc<SharedLease>, LockError> {
        let max_outage = self.manager.timeout() * MAX_OUTAGE;
        let mut failing_since = self.started;
        let mut reconnected = false;
        let mut late_in_a_row = 0;
        loop {
            let Failure { error, replied, late } = failure;
            // A reply to a request that waits ends the previous outage.
            failing_since = replied.unwrap_or(failing_since);
            late_in_a_row = if late { late_in_a_row + 1 } else { 0 };
            if matches!(error, StoreError::Refused(_)) || late_in_a_row == MAX_LATE {
                return Err(self.failed(error));
            }
            if matches!(error, StoreError::Disconnected(_)) && !reconnected {
                // The connection may have been dead for a long time. A new one shows whether the
                // server is dead as well.
                reconnected = true;
            } else if self.has_time_for(RETRY_DELAY) && failing_since.elapsed() < max_outage {
                tokio::time::sleep(RETRY_DELAY).await;
            } else {
                return Err(self.failed(error));
            }
            self.manager.check_open()?;
            failure = match self.attempt_until_failure().await? {
                Ok(lease) => return Ok(lease),
                Err(failure) => failure,
            };
        }
    }

    /// Makes attempts until one is granted or fails. The outer error is final; a [`Failure`] may be
    /// worth a retry.
    async fn attempt_until_failure(&self) -> Result<Result<Arc<SharedLease>, Failure>, LockError> {
        let (mut earlier, mut replied) = (0_u32, None);
        loop {
            match self.attempt(earlier).await? {
                Attempted::Granted(lease) => return Ok(Ok(lease)),
                Attempted::Again => {
                    (earlier, replied) = (earlier.saturating_add(1), Some(Instant::now()));
                }
                Attempted::Failed(failure) => {
                    let replied = failure.replied.or(replied);
                    return Ok(Err(Failure { replied, ..failure }));
                }
            }
            self.manager.check_open()?;
        }
    }

    /// Makes one attempt, after `earlier` ones that ended with [`Attempted::Again`].
    async fn attempt(&self, earlier: u32) -> Result<Attempted, LockError> {
        let Self { manager, key, template, terms, started, wait_until } = *self;
        // Each attempt has its own token, because an abandoned request may still arrive.
        let token = Token::random().map_err(|error| self.failed(error))?;
        let claim = Claim::new(key.clone(), token, terms.ttl, wait_until, earlier);
        let begun = Moment::now();
        let attempt = Attempt { request: self, token, open: true };
        let (error, late) = match manager.store().acquire(&claim).await {
            Ok(Acquired::Granted { sent, fence }) => {
                let grant = Grant { token, fence, sent: begun.convert(sent) };
                let lease = SharedLease::new(key.clone(), template, grant, terms, started);
                if !lease.is_overdue() {
                    attempt.settle();
                    return Ok(Attempted::Granted(Arc::new(lease)));
                }
                let ttl = terms.ttl;
                let error = format!("the reply came after the lease of {ttl:?} had run out");
                (StoreError::Unknown(error.into()), true)
            }
            Ok(Acquired::Busy { holder, expires_in: retry_after }) => {
                attempt.settle();
                let waits = wait_until.is_none_or(|until| until > started);
                let waited = if waits { started.elapsed() } else { Duration::ZERO };
                return Err(LockError::Busy { key: key.clone(), waited, holder, retry_after });
            }
            Ok(Acquired::Again) => {
                attempt.settle();
                return Ok(Attempted::Again);
            }
            Ok(Acquired::NotALock { kind }) => {
                attempt.settle();
                let reason = format!("it holds a {kind}; use another key");
                return Err(LockError::invalid_key(key.clone(), reason));
            }
            Err(error) => (error, false),
        };
        self.clean_up(attempt, &claim, &error).await;
        Ok(Attempted::Failed(Failure { error, replied: claim.replied(), late }))
    }

    /// Ends a failed attempt, and releases what it may have taken.
    async fn clean_up(&self, attempt: Attempt<'_>, claim: &Claim, error: &StoreError) {
        // After a reply, the claim has a place in the queue, and must not be handed the lock there.
        if !error.may_have_run() && claim.replied().is_none() {
            return attempt.settle();
        }
        let released = attempt.abandon();
        // The next attempt, if there is one, must not find this one in its way.
        if matches!(error, StoreError::Disconnected(_)) || self.has_time_for(Duration::ZERO) {
            let _ = released.await;
        }
    }

    /// Whether the wait lasts for longer than `delay` from now.
    fn has_time_for(&self, delay: Duration) -> bool {
        self.wait_until.is_none_or(|until| Instant::now() + delay < until)
    }

    fn failed(&self, source: StoreError) -> LockError {
        let (key, store) = (Some(self.key.clone()), self.manager.store_name());
        LockError::Unavailable { key, step: Step::Acquire, store, source }
    }
}

/// An attempt that may have taken the lock. Dropped before it is settled, it releases the lock.
struct Attempt<'a> {
    request: &'a Attempts<'a>,
    token: Token,
    open: bool,
}

impl Attempt<'_> {
    /// Ends the attempt with a known outcome.
    fn settle(mut self) {
        self.open = false;
    }

    /// Ends the attempt with an unknown outcome: releases the lock in the background. The receiver
    /// yields the result of the first try.
    fn abandon(mut self) -> oneshot::Receiver<Result<Owned, StoreError>> {
        self.open = false;
        let (first, released) = oneshot::channel();
        self.release(Some(first));
        released
    }

    fn release(&self, first: Option<oneshot::Sender<Result<Owned, StoreError>>>) {
        let Attempts { manager, key, template, terms, started, .. } = *self.request;
        let waited = started.elapsed();
        tracing::info!(%key, template, ?waited, "abandoned");
        let release = Release { key: key.clone(), token: self.token, keep_until: None };
        let until = Instant::now() + terms.ttl;
        manager.watchdog().release(ReleaseJob { release, template, waited, until, first });
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.open {
            self.release(None);
        }
    }
}
