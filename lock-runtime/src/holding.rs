//! What the holder of a lock and the watchdog share about one lease.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::error::LossCause;
use crate::lease::{Action, Event, LeaseState, Terms};
use crate::store::{Renewal, StoreError};
use crate::{Fence, Key, LockError, Token, clock};

/// How a request was granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) token: Token,
    pub(crate) fence: Fence,
    /// An instant before the request was sent that was granted, on the [clock of leases](clock).
    pub(crate) sent: Instant,
}

/// One lease that was granted.
#[derive(Debug)]
pub(crate) struct Holding {
    /// Tells leases of one process apart.
    pub(crate) id: u64,
    pub(crate) key: Key,
    /// The template the key was made from, such as `order:<id>`.
    pub(crate) template: Option<&'static str>,
    pub(crate) token: Token,
    pub(crate) fence: Fence,
    pub(crate) terms: Terms,
    /// How long the holder waited for it.
    pub(crate) waited: Duration,
    granted: Instant,
    state: Mutex<LeaseState>,
    /// Told when the lease is lost or released.
    ended: Notify,
    /// Told when a renewal was answered; apart, because that is no reason to wake the holder.
    answered: Notify,
}

impl Holding {
    /// The lease of a request that began at `started`.
    pub(crate) fn new(
        key: Key,
        template: Option<&'static str>,
        grant: Grant,
        terms: Terms,
        started: Instant,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Grant { token, fence, sent } = grant;
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            key,
            template,
            token,
            fence,
            terms,
            waited: started.elapsed(),
            granted: Instant::now(),
            state: Mutex::new(LeaseState::granted(terms, sent, token.seed())),
            ended: Notify::new(),
            answered: Notify::new(),
        }
    }

    /// A panic elsewhere leaves the state usable: it changes in one step.
    fn state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of an event, and says what to do. Who is told to stop the holder does so with
    /// [`announce_loss`](Self::announce_loss).
    pub(crate) fn step(&self, event: Event, now: Instant) -> Action {
        self.state().step(event, now)
    }

    /// Takes note of what became of a renewal, and says whether the holder has to stop.
    pub(crate) fn renewal_answered(&self, event: Event, now: Instant) -> Action {
        let action = self.step(event, now);
        self.answered.notify_waiters();
        action
    }

    pub(crate) fn renewal_in_flight(&self) -> bool {
        self.state().renewal_in_flight()
    }

    /// Waits until no renewal is on its way.
    pub(crate) async fn renewals_answered(&self) {
        loop {
            let answered = self.answered.notified();
            if !self.renewal_in_flight() {
                return;
            }
            answered.await;
        }
    }

    /// Ends the lease on the holder's side.
    pub(crate) fn end(&self) -> Result<(), LossCause> {
        let mut state = self.state();
        let action = state.step(Event::Release, clock::now());
        let ended = state.loss().map_or(Ok(()), Err);
        drop(state);
        match action {
            Action::Stop(cause) => self.announce_loss(cause),
            _ => self.ended.notify_waiters(),
        }
        ended
    }

    /// How the lease was lost, if it was. The clock decides, not the thread that watches it.
    pub(crate) fn loss(&self) -> Option<LossCause> {
        let mut state = self.state();
        let action = state.step(Event::Check, clock::now());
        let loss = state.loss();
        drop(state);
        if let Action::Stop(cause) = action {
            self.announce_loss(cause);
        }
        loss
    }

    /// How the lease ended, if it did: as [`loss`](Self::loss), or by its release.
    pub(crate) fn end_cause(&self) -> Option<LossCause> {
        self.loss().or_else(|| self.state().is_released().then_some(LossCause::Released))
    }

    /// Waits until the lease is lost or released.
    pub(crate) async fn ended(&self) -> LossCause {
        loop {
            let ended = self.ended.notified();
            if let Some(cause) = self.end_cause() {
                return cause;
            }
            ended.await;
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.state().remaining(clock::now())
    }

    /// Whether the lease was over by now, had nobody ended it.
    pub(crate) fn is_overdue(&self) -> bool {
        self.state().deadline() <= clock::now()
    }

    pub(crate) fn held_for(&self) -> Duration {
        self.granted.elapsed()
    }

    /// Until when the key stays taken in any case.
    pub(crate) fn keep_until(&self) -> Option<Instant> {
        let least = self.terms.min_hold;
        (!least.is_zero()).then(|| self.granted + least)
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
        let Self { key, template, waited, token, fence, .. } = self;
        tracing::debug!(%key, template, ?waited, %token, %fence, "acquired");
    }

    pub(crate) fn report_renewal(&self) {
        let Self { key, template, waited, .. } = self;
        tracing::debug!(%key, template, ?waited, held = ?self.held_for(), "renewed");
    }

    pub(crate) fn report_failed_renewal(&self, error: &StoreError, store: &str) {
        let Self { key, template, waited, .. } = self;
        tracing::warn!(%key, template, ?waited, held = ?self.held_for(), store, %error, "could not renew yet");
    }

    /// Tells the holder and the log.
    pub(crate) fn announce_loss(&self, cause: LossCause) {
        self.ended.notify_waiters();
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
