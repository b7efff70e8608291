//! The attempts of one request, and what becomes of those whose outcome is unknown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use crate::clock::Moment;
use crate::error::Step;
use crate::holding::{Grant, Holding};
use crate::lease::Terms;
use crate::store::{Acquired, Claim, Owned, Release, StoreError};
use crate::watchdog::Handover;
use crate::{Key, LockError, LockManager, Token};

/// How many timeouts long a waiting request puts up with a store that does not answer.
const MAX_OUTAGE: u32 = 5;
/// How many timeouts a request may take beyond the time that it waits.
const MAX_OVERRUN: u32 = 3;
/// How many leases in a row may have run out before their grants arrive: the store is too slow then
/// for this ttl, and whoever waits on would keep the lock from others.
const MAX_LATE: u32 = 3;
/// Pause after a failed attempt of a waiting request.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What became of a question.
enum Asked {
    Granted(Arc<Holding>),
    /// There is time to ask again, under a new token.
    Again,
    Failed(Failure),
}

/// How an attempt failed.
struct Failure {
    error: StoreError,
    /// When the store had last answered while the request waited.
    answered: Option<Instant>,
    /// Whether it was granted too late.
    late: bool,
}

/// A request that was checked and is being made.
pub(crate) struct Acquisition<'a> {
    pub(crate) manager: &'a LockManager,
    pub(crate) key: &'a Key,
    pub(crate) template: Option<&'static str>,
    pub(crate) terms: Terms,
    pub(crate) started: Instant,
    /// Until when to wait; none: for ever.
    pub(crate) wait_until: Option<Instant>,
}

impl Acquisition<'_> {
    /// Asks the store until it has granted the lock or refused it for good. What follows a failed
    /// attempt takes no longer than [`MAX_OVERRUN`] past the time to wait.
    pub(crate) async fn run(&self) -> Result<Arc<Holding>, LockError> {
        let watchdog = self.manager.watchdog();
        watchdog.start().map_err(|error| self.failed(StoreError::Refused(error.into())))?;
        let failure = match self.attempt().await? {
            Ok(holding) => return Ok(holding),
            Err(failure) => failure,
        };
        let overrun = self.manager.timeout() * MAX_OVERRUN;
        let limit = self.wait_until.and_then(|until| until.checked_add(overrun));
        match limit {
            // Without a runtime there are no timers, and no store that needs them answers at all.
            Some(limit) if runtime::Handle::try_current().is_ok() => {
                let granted = timeout_at(limit.into(), self.retry(failure)).await;
                let late = || self.failed(StoreError::no_answer());
                granted.unwrap_or_else(|_| Err(late()))
            }
            _ => self.retry(failure).await,
        }
    }

    async fn retry(&self, mut failure: Failure) -> Result<Arc<Holding>, LockError> {
        let max_outage = self.manager.timeout() * MAX_OUTAGE;
        let mut failing_since = self.started;
        let mut reconnected = false;
        let mut late_in_a_row = 0;
        loop {
            let Failure { error, answered, late } = failure;
            // A store that had answered meanwhile, to a request that waits, begins a new outage.
            failing_since = answered.unwrap_or(failing_since);
            late_in_a_row = if late { late_in_a_row + 1 } else { 0 };
            if matches!(error, StoreError::Refused(_)) || late_in_a_row == MAX_LATE {
                return Err(self.failed(error));
            }
            if matches!(error, StoreError::Disconnected(_)) && !reconnected {
                // The connection may have been dead for long. A fresh one shows whether the server
                // is, too.
                reconnected = true;
            } else if self.may_wait(RETRY_PAUSE) && failing_since.elapsed() < max_outage {
                tokio::time::sleep(RETRY_PAUSE).await;
            } else {
                return Err(self.failed(error));
            }
            self.manager.check_open()?;
            failure = match self.attempt().await? {
                Ok(holding) => return Ok(holding),
                Err(failure) => failure,
            };
        }
    }

    /// One attempt: granted, refused, or an error of the store that may be worth another one, with
    /// the instant of the store's last answer.
    async fn attempt(&self) -> Result<Result<Arc<Holding>, Failure>, LockError> {
        let (mut rounds, mut answered) = (0_u32, None);
        loop {
            match self.ask(rounds).await? {
                Asked::Granted(holding) => return Ok(Ok(holding)),
                Asked::Again => {
                    (rounds, answered) = (rounds.saturating_add(1), Some(Instant::now()));
                }
                Asked::Failed(failure) => {
                    let answered = failure.answered.or(answered);
                    return Ok(Err(Failure { answered, ..failure }));
                }
            }
            self.manager.check_open()?;
        }
    }

    async fn ask(&self, rounds: u32) -> Result<Asked, LockError> {
        let Self { manager, key, template, terms, started, wait_until } = *self;
        // Each question has its own token, because one that was given up may still arrive.
        let token = Token::random().map_err(|error| self.failed(error))?;
        let claim = Claim::new(key.clone(), token, terms.ttl, wait_until, rounds);
        let begun = Moment::now();
        let attempt = Attempt { acquisition: self, token, open: true };
        let (error, late) = match manager.store().acquire(&claim).await {
            Ok(Acquired::Granted { sent, fence }) => {
                let grant = Grant { token, fence, sent: begun.convert(sent) };
                let holding = Holding::new(key.clone(), template, grant, terms, started);
                if !holding.is_overdue() {
                    attempt.settle();
                    return Ok(Asked::Granted(Arc::new(holding)));
                }
                let ttl = terms.ttl;
                let error = format!("the answer came when the lease of {ttl:?} had run out");
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
                return Ok(Asked::Again);
            }
            Ok(Acquired::NotALock { kind }) => {
                attempt.settle();
                let reason = format!("a {kind} is kept there; use another key");
                return Err(LockError::invalid_key(key.clone(), reason));
            }
            Err(error) => (error, false),
        };
        // A claim that was answered stands in a queue, and must not be handed the lock there.
        if error.may_have_run() || claim.answered().is_some() {
            let freed = attempt.abandon();
            // The next attempt, if there will be one, must not find this one in its way.
            if matches!(error, StoreError::Disconnected(_)) || self.may_wait(Duration::ZERO) {
                let _ = freed.await;
            }
        } else {
            attempt.settle();
        }
        Ok(Asked::Failed(Failure { error, answered: claim.answered(), late }))
    }

    fn may_wait(&self, pause: Duration) -> bool {
        self.wait_until.is_none_or(|until| Instant::now() + pause < until)
    }

    fn failed(&self, source: StoreError) -> LockError {
        let (key, store) = (Some(self.key.clone()), self.manager.store_name());
        LockError::Unavailable { key, step: Step::Acquire, store, source }
    }
}

/// An attempt that may have taken the lock. Dropped before it is settled, it gives the lock back.
struct Attempt<'a> {
    acquisition: &'a Acquisition<'a>,
    token: Token,
    open: bool,
}

impl Attempt<'_> {
    /// The outcome is known.
    fn settle(mut self) {
        self.open = false;
    }

    /// The outcome is unknown: gives the lock back, and tells when that was tried once.
    fn abandon(mut self) -> oneshot::Receiver<Result<Owned, StoreError>> {
        self.open = false;
        let (first, freed) = oneshot::channel();
        self.hand_over(Some(first));
        freed
    }

    fn hand_over(&self, first: Option<oneshot::Sender<Result<Owned, StoreError>>>) {
        let Acquisition { manager, key, template, terms, started, .. } = *self.acquisition;
        let waited = started.elapsed();
        tracing::info!(%key, template, ?waited, "abandoned");
        let release = Release { key: key.clone(), token: self.token, keep_until: None };
        let until = Instant::now() + terms.ttl;
        manager.watchdog().release(Handover { release, template, waited, until, first });
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.open {
            self.hand_over(None);
        }
    }
}
