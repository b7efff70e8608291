//! [`SharedLease`]: one granted lease, as its guard, its views and the watchdog share it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::clock;
use super::state::{Action, Event, LeaseState};
use super::terms::Terms;
use crate::error::{LockError, LossCause};
use crate::fence::Fence;
use crate::key::Key;
use crate::store::{Renewal, StoreError};
use crate::sync::lock;
use crate::token::Token;

/// The grant of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) token: Token,
    pub(crate) fence: Fence,
    /// An instant before the granted request was sent, on the [clock of leases](clock).
    pub(crate) sent: Instant,
}

/// One lease that was granted.
#[derive(Debug)]
pub(crate) struct SharedLease {
    /// Identifies the lease within the process.
    pub(crate) id: u64,
    pub(crate) key: Key,
    /// The template of the key, such as `order:<id>`.
    pub(crate) template: Option<&'static str>,
    pub(crate) token: Token,
    pub(crate) fence: Fence,
    pub(crate) terms: Terms,
    /// How long the holder waited for the lock.
    pub(crate) waited: Duration,
    granted: Instant,
    state: Mutex<LeaseState>,
    /// Notified when the lease is lost or released.
    ended: Notify,
    /// Notified when the reply to a renewal has arrived; separate, because it need not wake the
    /// holder.
    renewed: Notify,
}

impl SharedLease {
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
            renewed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, LeaseState> {
        lock(&self.state)
    }

    /// Applies an event and returns the reaction. To stop the holder, the caller calls
    /// [`report_loss`](Self::report_loss).
    pub(crate) fn step(&self, event: Event, now: Instant) -> Action {
        self.state().step(event, now)
    }

    /// Applies the outcome of a renewal.
    pub(crate) fn finish_renewal(&self, event: Event, now: Instant) -> Action {
        let action = self.step(event, now);
        self.renewed.notify_waiters();
        action
    }

    pub(crate) fn renewal_in_flight(&self) -> bool {
        self.state().renewal_in_flight()
    }

    /// Waits until no renewal is in flight.
    pub(crate) async fn renewals_finished(&self) {
        loop {
            let renewed = self.renewed.notified();
            if !self.renewal_in_flight() {
                return;
            }
            renewed.await;
        }
    }

    /// Ends the lease on the holder's side.
    pub(crate) fn end(&self) -> Result<(), LossCause> {
        let mut state = self.state();
        let action = state.step(Event::Release, clock::now());
        let ended = state.loss().map_or(Ok(()), Err);
        drop(state);
        match action {
            Action::Stop(cause) => self.report_loss(cause),
            _ => self.ended.notify_waiters(),
        }
        ended
    }

    /// Why the lease was lost, if it was. The clock decides, even before the watchdog notices.
    pub(crate) fn loss(&self) -> Option<LossCause> {
        let mut state = self.state();
        let action = state.step(Event::Check, clock::now());
        let loss = state.loss();
        drop(state);
        if let Action::Stop(cause) = action {
            self.report_loss(cause);
        }
        loss
    }

    /// Why the lease ended, if it did: by a [`loss`](Self::loss) or by its release.
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

    /// Whether the deadline has passed, even if the lease was released before.
    pub(crate) fn is_overdue(&self) -> bool {
        self.state().deadline() <= clock::now()
    }

    pub(crate) fn held_for(&self) -> Duration {
        self.granted.elapsed()
    }

    /// Until when the key stays taken, for `min_hold`.
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
        let (Self { key, template, waited, .. }, held) = (self, self.held_for());
        tracing::warn!(
            %key, template, ?waited, ?held, store, %error,
            "renewal failed, will be retried"
        );
    }

    /// Stops the holder and logs the loss.
    pub(crate) fn report_loss(&self, cause: LossCause) {
        self.ended.notify_waiters();
        let Self { key, template, waited, .. } = self;
        tracing::warn!(%key, template, ?waited, held = ?self.held_for(), %cause, "lost");
    }

    pub(crate) fn report_release(&self) {
        let Self { key, template, waited, .. } = self;
        tracing::debug!(%key, template, ?waited, held = ?self.held_for(), "released");
    }

    pub(crate) fn report_failed_release(&self, error: &StoreError, store: &str) {
        let (Self { key, template, waited, .. }, held) = (self, self.held_for());
        tracing::warn!(
            %key, template, ?waited, ?held, store, %error,
            "release failed, will be retried in the background"
        );
    }
}
