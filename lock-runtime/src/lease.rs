//! [`Lease`]: the view of a held lock that can be cloned and shared.

pub(crate) mod clock;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod terms;
pub(crate) mod watchdog;

use std::fmt;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use self::shared::SharedLease;
use crate::error::LossCause;
use crate::fence::Fence;

/// A view of a lease: cheap to clone, and without control over the lock.
///
/// In a locked function, `lease = name` binds it.
#[derive(Clone, Default)]
pub struct Lease(Arc<OnceLock<Arc<SharedLease>>>);

impl Lease {
    /// Attaches the view to a lease that was granted.
    pub(crate) fn begin(&self, lease: &Arc<SharedLease>) {
        let _ = self.0.set(Arc::clone(lease));
    }

    /// The number of this grant, for the data that the lock protects; see [`fence`](crate::fence).
    ///
    /// Zero, below the fence of any grant, for a lease that has not begun.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.get().map_or(Fence::new(0), |lease| lease.fence)
    }

    /// How long the lease lasts from now if no further renewal is confirmed; zero when it is lost
    /// or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.get().map_or(Duration::ZERO, |lease| lease.remaining())
    }

    /// Whether the lock is no longer held: lost, or released by its holder. Also true when the
    /// lease has run out and the watchdog has not noticed yet.
    ///
    /// Call this before a step that cannot be stopped midway, also in work that was moved to
    /// another task or thread. The result may be outdated by the time it is used; only a check
    /// where the protected data is kept can close that gap.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.get().is_none_or(|lease| lease.end_cause().is_some())
    }

    /// Waits until the lock is no longer held.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LossCause {
        match self.0.get() {
            Some(lease) => lease.ended().await,
            None => pending().await,
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}
