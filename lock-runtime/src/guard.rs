//! [`LockGuard`]: a held lock.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::time::timeout;

use crate::error::{LockError, LossCause, Step};
use crate::fence::Fence;
use crate::key::Key;
use crate::lease::Lease;
use crate::lease::shared::SharedLease;
use crate::lease::watchdog::ReleaseJob;
use crate::manager::LockManager;
use crate::reentry;
use crate::store::{BoxFuture, Owned, Release};

/// A held lock.
///
/// It is renewed until it is released, dropped or lost. [`release`](Self::release) releases it and
/// reports whether it was held to the end; dropping the guard releases it in the background.
///
/// After a loss, the holder must not touch what the lock protects. [`run`](Self::run) stops the
/// work in that case.
#[must_use = "the lock is released when this is dropped"]
pub struct LockGuard {
    manager: LockManager,
    lease: Arc<SharedLease>,
    /// Whether dropping the guard has to release the lock.
    release_on_drop: bool,
}

impl LockGuard {
    pub(crate) fn new(manager: LockManager, lease: Arc<SharedLease>) -> Self {
        manager.watchdog().watch(&lease);
        Self { manager, lease, release_on_drop: true }
    }

    /// The key of the lock.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.lease.key
    }

    /// A view of this lease that can be cloned, kept and sent elsewhere.
    #[must_use]
    pub fn lease(&self) -> Lease {
        let view = Lease::default();
        view.begin(&self.lease);
        view
    }

    /// The number of this grant, for the data that the lock protects; see [`fence`](crate::fence).
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.lease.fence
    }

    /// How long the lease lasts from now if no further renewal is confirmed; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Whether the lease is lost. Also true when it has run out and the watchdog has not noticed
    /// yet.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lease.loss().is_some()
    }

    /// Waits until the lease is lost.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LossCause {
        self.lease.ended().await
    }

    /// Runs `work` while the lease lives, and drops it at its next await point when the lease is
    /// lost. Inside `work`, a request for the same key is [`LockError::AlreadyHeld`]. The lock
    /// stays held afterwards.
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
        // The lease may have ended during the last poll of `work`.
        self.lease.loss().map_or(Ok(output), |cause| Err(self.lease.lost_error(cause)))
    }

    pub(crate) fn loss_signal(&self) -> LossSignal {
        let lease = Arc::clone(&self.lease);
        Box::pin(async move { lease.ended().await })
    }

    /// Polls `body` unless the lease is lost.
    pub(crate) fn poll_held<F: Future>(
        &self,
        loss: &mut LossSignal,
        body: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, LockError>> {
        // The loss is checked first, because the body must not start anything after it. The signal
        // may be late, for example after a suspension of the process, so the clock is checked as
        // well.
        let cause = match loss.as_mut().poll(cx) {
            Poll::Ready(cause) => Some(cause),
            Poll::Pending => self.lease.loss(),
        };
        if let Some(cause) = cause {
            return Poll::Ready(Err(self.lease.lost_error(cause)));
        }
        let poll = || body.poll(cx).map(Ok);
        reentry::while_holding(self.manager.id(), &self.lease.key, poll)
    }

    /// Releases the lock, and reports whether it was held until now.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lease was lost before. [`LockError::Unavailable`] when the
    /// store did not reply; the release is then retried in the background.
    ///
    /// # Cancel safety
    ///
    /// Once the release has begun, the lock is released even if this future is dropped.
    pub async fn release(mut self) -> Result<(), LockError> {
        self.lease.end().map_err(|cause| self.lease.lost_error(cause))?;
        self.manager.watchdog().forget(&self.lease);
        // A renewal in flight must not arrive after the release.
        if self.lease.renewal_in_flight() && runtime::Handle::try_current().is_ok() {
            let _ = timeout(self.manager.timeout(), self.lease.renewals_finished()).await;
        }
        match self.manager.store().release(&self.release_request()).await {
            Ok(Owned::No) if !self.lease.is_overdue() => {
                self.release_on_drop = false;
                self.lease.report_loss(LossCause::Taken);
                Err(self.lease.lost_error(LossCause::Taken))
            }
            // A key that expired while the release was in flight counts as released: the holder
            // finished in time.
            Ok(_) => {
                self.release_on_drop = false;
                self.lease.report_release();
                Ok(())
            }
            Err(source) => {
                let store = self.manager.store_name();
                self.lease.report_failed_release(&source, &store);
                let key = Some(self.key().clone());
                Err(LockError::Unavailable { key, step: Step::Release, store, source })
            }
        }
    }

    /// Moves the lock from this guard into the future that releases it.
    pub(crate) fn begin_release(&mut self) -> BoxFuture<'static, Result<(), LockError>> {
        let (manager, lease) = (self.manager.clone(), Arc::clone(&self.lease));
        let guard = Self { manager, lease, release_on_drop: mem::take(&mut self.release_on_drop) };
        Box::pin(guard.release())
    }

    fn release_request(&self) -> Release {
        let SharedLease { key, token, .. } = &*self.lease;
        Release { key: key.clone(), token: *token, keep_until: self.lease.keep_until() }
    }
}

/// Resolves when a lease is lost.
pub(crate) type LossSignal = BoxFuture<'static, LossCause>;

/// The fallback for guards that were not [released](LockGuard::release).
impl Drop for LockGuard {
    fn drop(&mut self) {
        if !self.release_on_drop {
            return;
        }
        let ended = self.lease.end();
        self.manager.watchdog().forget(&self.lease);
        if ended != Err(LossCause::Taken) {
            let until = Instant::now() + self.lease.terms.ttl;
            let SharedLease { template, waited, .. } = *self.lease;
            let release = self.release_request();
            let job = ReleaseJob { release, template, waited, until, first: None };
            self.manager.watchdog().release(job);
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
