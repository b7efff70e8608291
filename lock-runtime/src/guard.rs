//! A held lock: [`LockGuard`], and [`Lease`], the view of it that can be shared.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::time::timeout;

use crate::error::{LossCause, Step};
use crate::holding::Holding;
use crate::store::{BoxFuture, Owned, Release};
use crate::watchdog::Handover;
use crate::{Fence, Key, LockError, LockManager, held};

/// A held lock.
///
/// It is renewed until it is released, dropped or lost. [`release`](Self::release) gives it back
/// and tells whether it was held to the end; dropping it gives it back in the background.
///
/// The holder must not act on what the lock protects after the lease was lost, so work is best
/// done in [`run`](Self::run), which stops it then.
#[must_use = "the lock is released when this is dropped"]
pub struct LockGuard {
    manager: LockManager,
    holding: Arc<Holding>,
    /// Whether a release is still owed when this is dropped.
    owed: bool,
}

impl LockGuard {
    pub(crate) fn new(manager: LockManager, holding: Arc<Holding>) -> Self {
        manager.watchdog().watch(&holding);
        Self { manager, holding, owed: true }
    }

    /// What is locked.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.holding.key
    }

    /// A view of this lease that can be cloned, kept and sent elsewhere.
    #[must_use]
    pub fn lease(&self) -> Lease {
        let lease = Lease::default();
        lease.begin(&self.holding);
        lease
    }

    /// The number of this grant, for the data that the lock protects; see [`fence`](crate::fence).
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.holding.fence
    }

    /// How long the lease lasts from now if no further renewal is confirmed; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.holding.remaining()
    }

    /// Whether the lease is lost. Also true when its time is over and nobody has noticed yet.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.holding.loss().is_some()
    }

    /// Waits until the lease is lost.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LossCause {
        self.holding.ended().await
    }

    /// Runs `work` while the lease lives, and drops it at its next await point when the lease is
    /// lost. Locks that `work` takes itself are known to be inside this one:
    /// the same key is [`LockError::AlreadyHeld`]. The lock stays held afterwards.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lease was lost before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`; the lock stays held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let mut loss = self.loss_signal();
        let mut work = pin!(work);
        let output = poll_fn(|cx| self.poll_held(&mut loss, work.as_mut(), cx)).await?;
        // The lease may have ended while `work` was busy for the last time.
        self.holding.loss().map_or(Ok(output), |cause| Err(self.holding.lost_error(cause)))
    }

    pub(crate) fn loss_signal(&self) -> LossSignal {
        let holding = Arc::clone(&self.holding);
        Box::pin(async move { holding.ended().await })
    }

    /// Polls `body` unless the lease is lost.
    pub(crate) fn poll_held<F: Future>(
        &self,
        loss: &mut LossSignal,
        body: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, LockError>> {
        // The loss comes first: a body must not begin anything after it. The signal may be late,
        // after a suspended process for example, so the clock is asked as well.
        let cause = match loss.as_mut().poll(cx) {
            Poll::Ready(cause) => Some(cause),
            Poll::Pending => self.holding.loss(),
        };
        if let Some(cause) = cause {
            return Poll::Ready(Err(self.holding.lost_error(cause)));
        }
        let poll = || body.poll(cx).map(Ok);
        held::while_holding(self.manager.id(), &self.holding.key, poll)
    }

    /// Gives the lock back, and tells whether it was held until now.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lease was lost before. [`LockError::Unavailable`] when the
    /// store did not answer; the release is then repeated in the background.
    ///
    /// # Cancel safety
    ///
    /// A lock whose release was begun is released, also when this future is dropped.
    pub async fn release(mut self) -> Result<(), LockError> {
        self.holding.end().map_err(|cause| self.holding.lost_error(cause))?;
        self.manager.watchdog().forget(&self.holding);
        // A renewal that was begun comes first, so that none arrives after the release.
        if self.holding.renewal_in_flight() && runtime::Handle::try_current().is_ok() {
            let _ = timeout(self.manager.timeout(), self.holding.renewals_answered()).await;
        }
        match self.manager.store().release(&self.order()).await {
            Ok(Owned::No) if !self.holding.is_overdue() => {
                self.owed = false;
                self.holding.announce_loss(LossCause::Taken);
                Err(self.holding.lost_error(LossCause::Taken))
            }
            // Also a key that has expired while the release was on its way: the holder ended in
            // time.
            Ok(_) => {
                self.owed = false;
                self.holding.report_release();
                Ok(())
            }
            Err(source) => {
                let store = self.manager.store_name();
                self.holding.report_failed_release(&source, &store);
                let key = Some(self.key().clone());
                Err(LockError::Unavailable { key, step: Step::Release, store, source })
            }
        }
    }

    /// Moves the lock from this guard into its release.
    pub(crate) fn begin_release(&mut self) -> BoxFuture<'static, Result<(), LockError>> {
        let (manager, holding) = (self.manager.clone(), Arc::clone(&self.holding));
        let guard = Self { manager, holding, owed: mem::take(&mut self.owed) };
        Box::pin(guard.release())
    }

    fn order(&self) -> Release {
        let Holding { key, token, .. } = &*self.holding;
        Release { key: key.clone(), token: *token, keep_until: self.holding.keep_until() }
    }
}

/// Resolves when a lease is lost.
pub(crate) type LossSignal = BoxFuture<'static, LossCause>;

/// The way that awaits the answer is [`LockGuard::release`]; this is the net below it.
impl Drop for LockGuard {
    fn drop(&mut self) {
        if !self.owed {
            return;
        }
        let ended = self.holding.end();
        self.manager.watchdog().forget(&self.holding);
        if ended != Err(LossCause::Taken) {
            let until = Instant::now() + self.holding.terms.ttl;
            let Holding { template, waited, .. } = *self.holding;
            let release = self.order();
            let handover = Handover { release, template, waited, until, first: None };
            self.manager.watchdog().release(handover);
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", self.key())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// A view of a lease: cheap to clone, and without power over the lock.
///
/// In a locked function it is what `lease = name` binds.
#[derive(Clone, Default)]
pub struct Lease(Arc<OnceLock<Arc<Holding>>>);

impl Lease {
    /// Makes this the view of a lease; until then it is the view of none.
    pub(crate) fn begin(&self, holding: &Arc<Holding>) {
        let _ = self.0.set(Arc::clone(holding));
    }

    /// The number of this grant, for the data that the lock protects; see [`fence`](crate::fence).
    ///
    /// Zero, which is less than any, for a lease that has not begun.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.get().map_or(Fence::new(0), |holding| holding.fence)
    }

    /// How long the lease lasts from now if no further renewal is confirmed; zero when it is lost
    /// or was released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.get().map_or(Duration::ZERO, |holding| holding.remaining())
    }

    /// Whether the lock is not held any more: lost, or given back by its holder. Also true when
    /// the lease's time is over and nobody has noticed yet.
    ///
    /// Ask before a step that cannot be stopped midway, also in work that was handed to another
    /// task or thread. The answer may be outdated by the time it is used; only a check where the
    /// protected data is kept can close that gap.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.get().is_none_or(|holding| holding.end_cause().is_some())
    }

    /// Waits until the lock is not held any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LossCause {
        match self.0.get() {
            Some(holding) => holding.ended().await,
            None => pending().await,
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}
