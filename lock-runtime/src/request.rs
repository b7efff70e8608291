//! [`LockRequest`]: the options of one lock, and their checks.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::acquire::Attempts;
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::key::Key;
use crate::lease::Lease;
use crate::lease::terms::Terms;
use crate::manager::LockManager;
use crate::reentry;

/// The default ttl of a lease.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// A request for a lock: set its options, then `.await` it.
///
/// ```
/// # use std::time::Duration;
/// # use lock_runtime::{LockError, LockManager};
/// # async fn example(manager: LockManager) -> Result<(), LockError> {
/// let guard = manager.lock("order:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(2)).await?;
/// // … one process at a time …
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Awaiting it returns a [`LockError`]: [`Busy`](LockError::Busy) when another holder has the lock
/// and the wait is over, [`Unavailable`](LockError::Unavailable) when the store cannot be used,
/// [`AlreadyHeld`](LockError::AlreadyHeld) inside a body that holds the same key,
/// [`InvalidKey`](LockError::InvalidKey) and [`InvalidOption`](LockError::InvalidOption) when the
/// request itself is invalid.
///
/// A request without a wait ends within three times the manager's
/// [timeout](crate::Builder::timeout). A request with a wait tolerates an outage of the store of up
/// to five times that long.
///
/// # Cancel safety
///
/// When the future is dropped, a lock that it has taken or may have taken is released.
#[must_use = "a lock is requested when this is awaited"]
pub struct LockRequest(Box<Options>);

struct Options {
    manager: Result<LockManager, LockError>,
    key: Key,
    /// The error of a key with invalid values.
    key_error: Option<LockError>,
    template: Option<&'static str>,
    wait: Wait,
    terms: Terms,
    lease: Lease,
}

#[derive(Debug, Clone, Copy)]
enum Wait {
    AtMost(Duration),
    Forever,
}

impl LockManager {
    /// Requests the lock `key`: set the options of the request, then await it.
    pub fn lock(&self, key: impl Into<Key>) -> LockRequest {
        LockRequest::new(Ok(self.clone()), key.into())
    }
}

impl LockRequest {
    pub(crate) fn new(manager: Result<LockManager, LockError>, key: Key) -> Self {
        let terms =
            Terms { ttl: DEFAULT_TTL, renew: true, max_hold: None, min_hold: Duration::ZERO };
        let wait = Wait::AtMost(Duration::ZERO);
        let lease = Lease::default();
        Self(Box::new(Options {
            manager,
            key,
            key_error: None,
            template: None,
            wait,
            terms,
            lease,
        }))
    }

    /// The request of a locked function, whose key comes from a template.
    pub(crate) fn of_template(
        manager: Result<LockManager, LockError>,
        template: &'static str,
        key: Result<Key, LockError>,
    ) -> Self {
        let (key, key_error) = match key {
            Ok(key) => (key, None),
            Err(error) => (error.key().cloned().unwrap_or_else(|| template.into()), Some(error)),
        };
        let mut request = Self::new(manager, key);
        request.0.key_error = key_error;
        request.0.template = Some(template);
        request
    }

    /// How long the lease lives without renewal: 250 ms (100 ms with [`renew(false)`](Self::renew))
    /// to 24 hours, 30 s by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.0.terms.ttl = ttl;
        self
    }

    /// How long to wait while the lock is busy: by default, not at all.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.0.wait = Wait::AtMost(limit);
        self
    }

    /// Waits for the lock without a limit.
    pub fn wait_forever(mut self) -> Self {
        self.0.wait = Wait::Forever;
        self
    }

    /// Whether the lease is renewed while the lock is held: `true` by default. Without renewal, the
    /// lock is lost after its ttl.
    pub fn renew(mut self, renew: bool) -> Self {
        self.0.terms.renew = renew;
        self
    }

    /// Limits the whole hold, after which the lock is lost ([`LossCause::MaxHold`]). By default
    /// there is none, and a holder that hangs keeps the lock as long as its process lives.
    ///
    /// [`LossCause::MaxHold`]: crate::LossCause::MaxHold
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.0.terms.max_hold = Some(limit);
        self
    }

    /// Keeps the key for at least this long after the grant, even if the lock is released earlier:
    /// for jobs that are shorter than the difference between their machines' clocks. At most the
    /// ttl.
    pub fn min_hold(mut self, least: Duration) -> Self {
        self.0.terms.min_hold = least;
        self
    }

    /// A view of the lease that this request will be granted.
    pub(crate) fn lease(&self) -> Lease {
        self.0.lease.clone()
    }

    /// Takes the lock.
    pub(crate) async fn acquire(self) -> Result<LockGuard, LockError> {
        let options = *self.0;
        let manager = options.manager?;
        if let Some(error) = options.key_error {
            return Err(error);
        }
        let Options { key, template, terms, wait, lease, .. } = options;
        if let Some(reason) = key.length_error() {
            return Err(LockError::invalid_key(key, reason));
        }
        if let Some(reason) = terms.error() {
            return Err(LockError::invalid_option(key, reason));
        }
        manager.check_open()?;
        if reentry::holds(manager.id(), &key) {
            return Err(LockError::AlreadyHeld { key });
        }

        let started = Instant::now();
        let wait_until = match wait {
            Wait::AtMost(limit) => started.checked_add(limit),
            Wait::Forever => None,
        };
        let manager = &manager;
        let attempts = Attempts { manager, key: &key, template, terms, started, wait_until };
        match attempts.run().await {
            Ok(granted) => {
                granted.report_grant();
                lease.begin(&granted);
                Ok(LockGuard::new(manager.clone(), granted))
            }
            Err(error) => {
                report_failure(&error, &key, template, started.elapsed());
                Err(error)
            }
        }
    }
}

fn report_failure(error: &LockError, key: &Key, template: Option<&'static str>, waited: Duration) {
    match error {
        LockError::Busy { holder, retry_after, .. } => {
            let holder = holder.as_deref();
            tracing::debug!(%key, template, ?waited, holder, ?retry_after, "busy");
        }
        error => tracing::warn!(%key, template, ?waited, %error, "acquire failed"),
    }
}

impl IntoFuture for LockRequest {
    type Output = Result<LockGuard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRequest").field("key", &self.0.key).finish_non_exhaustive()
    }
}
