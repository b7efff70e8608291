//! What the holder of a lock and the watchdog share about one lease.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::error::LossCause;
use crate::lease::{Action, Event, LeaseState, Terms};
use crate::store::{Renewal, StoreError};
use crate::{Key, LockError, Token};

/// One lease that was granted.
#[derive(Debug)]
pub(crate) struct Holding {
    /// Tells leases of one process apart.
    pub(crate) id: u64,
    pub(crate) key: Key,
    /// The template the key was made from, such as `order:<id>`.
    pub(crate) template: Option<&'static str>,
    pub(crate) token: Token,
    pub(crate) terms: Terms,
    /// How long the holder waited for it.
    waited: Duration,
    since: Instant,
    state: Mutex<LeaseState>,
    lost: Notify,
}

impl Holding {
    /// The lease of a request that began at `started` and was granted by what it sent after `sent`.
    pub(crate) fn new(
        key: Key,
        template: Option<&'static str>,
        token: Token,
        terms: Terms,
        started: Instant,
        sent: Instant,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            key,
            template,
            token,
            terms,
            waited: started.elapsed(),
            since: sent,
            state: Mutex::new(LeaseState::granted(terms, sent, token.seed())),
            lost: Notify::new(),
        }
    }

    /// A panic elsewhere leaves the state usable: it changes in one step.
    fn state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of an event, tells the holder if it has to stop, and says what else to do.
    pub(crate) fn step(&self, event: Event, now: Instant) -> Action {
        let action = self.state().step(event, now);
        if let Action::Stop(_) = action {
            self.lost.notify_waiters();
        }
        action
    }

    /// Ends the lease on the holder's side, and tells whether a renewal is on its way.
    pub(crate) fn end(&self) -> Result<bool, LossCause> {
        if let Action::Stop(cause) = self.step(Event::Release, Instant::now()) {
            self.report_loss(cause);
        }
        let state = self.state();
        state.loss().map_or(Ok(state.renewal_in_flight()), Err)
    }

    /// How the lease was lost, if it was. The clock decides, not the thread that watches it.
    pub(crate) fn loss(&self) -> Option<LossCause> {
        if let Action::Stop(cause) = self.step(Event::Check, Instant::now()) {
            self.report_loss(cause);
        }
        self.state().loss()
    }

    pub(crate) async fn lost(&self) -> LossCause {
        loop {
            let lost = self.lost.notified();
            if let Some(cause) = self.loss() {
                return cause;
            }
            lost.await;
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.state().remaining(Instant::now())
    }

    pub(crate) fn held_for(&self) -> Duration {
        self.since.elapsed()
    }

    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.state().next_tick()
    }

    pub(crate) fn renewal(&self) -> Renewal {
        let patience = self.state().patience();
        Renewal { key: self.key.clone(), token: self.token, ttl: self.terms.ttl, patience }
    }

    pub(crate) fn lost_error(&self, cause: LossCause) -> LockError {
        LockError::Lost { key: self.key.clone(), cause }
    }

    pub(crate) fn report_grant(&self) {
        let Self { key, template, waited, .. } = self;
        tracing::debug!(%key, template, ?waited, "acquired");
    }

    pub(crate) fn report_renewal(&self) {
        let Self { key, template, waited, .. } = self;
        tracing::debug!(%key, template, ?waited, held = ?self.held_for(), "renewed");
    }

    pub(crate) fn report_failed_renewal(&self, error: &StoreError, store: &str) {
        let Self { key, template, waited, .. } = self;
        tracing::warn!(%key, template, ?waited, held = ?self.held_for(), store, %error, "could not renew yet");
    }

    pub(crate) fn report_loss(&self, cause: LossCause) {
        let Self { key, template, waited, .. } = self;
        tracing::warn!(%key, template, ?waited, held = ?self.held_for(), %cause, "lost");
    }

    pub(crate) fn report_release(&self) {
        let Self { key, template, waited, .. } = self;
        tracing::debug!(%key, template, ?waited, held = ?self.held_for(), "released");
    }

    pub(crate) fn report_failed_release(&self, error: &StoreError, store: &str) {
        let Self { key, template, waited, .. } = self;
        tracing::warn!(%key, template, ?waited, held = ?self.held_for(), store, %error, "could not release yet");
    }
}
