//! [`LockRequest`]: the options of one lock, and whether they make sense.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::acquire::Acquisition;
use crate::guard::{Lease, LockGuard};
use crate::lease::{MAX_DURATION, MIN_TTL, MIN_TTL_UNRENEWED, Terms};
use crate::{Key, LockError, LockManager, held};

/// Time to live of a lease for which none was given.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// A lock about to be requested: set its options, then `.await` it.
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
/// Awaiting it gives a [`LockError`]: [`Busy`](LockError::Busy) when somebody else holds the lock
/// and the time to wait is over, [`Unavailable`](LockError::Unavailable) when the store cannot be
/// used, [`AlreadyHeld`](LockError::AlreadyHeld) inside a body that holds the same key,
/// [`InvalidKey`](LockError::InvalidKey) and [`InvalidOption`](LockError::InvalidOption) for what
/// cannot be requested.
///
/// A request that does not wait ends within three times the manager's
/// [timeout](crate::Builder::timeout). One that waits puts up with a store that is away for up to
/// five times that long.
///
/// # Cancel safety
///
/// When the future is dropped, a lock that it has taken or may have taken is released.
#[must_use = "a lock is requested when this is awaited"]
pub struct LockRequest(Box<Options>);

struct Options {
    manager: Result<LockManager, LockError>,
    key: Key,
    /// What was wrong with the key's values.
    bad_key: Option<LockError>,
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

impl LockRequest {
    pub(crate) fn new(manager: Result<LockManager, LockError>, key: Key) -> Self {
        let terms =
            Terms { ttl: DEFAULT_TTL, renew: true, max_hold: None, min_hold: Duration::ZERO };
        let wait = Wait::AtMost(Duration::ZERO);
        let lease = Lease::default();
        Self(Box::new(Options { manager, key, bad_key: None, template: None, wait, terms, lease }))
    }

    /// The request of a locked function, whose key was made from a template.
    pub(crate) fn of_template(
        manager: Result<LockManager, LockError>,
        template: &'static str,
        key: Result<Key, LockError>,
    ) -> Self {
        let (key, bad_key) = match key {
            Ok(key) => (key, None),
            Err(error) => (error.key().cloned().unwrap_or_else(|| template.into()), Some(error)),
        };
        let mut request = Self::new(manager, key);
        request.0.bad_key = bad_key;
        request.0.template = Some(template);
        request
    }

    /// How long the lease lives without renewal: 250 ms (100 ms with [`renew(false)`](Self::renew))
    /// to 24 hours, 30 s by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.0.terms.ttl = ttl;
        self
    }

    /// How long to wait while somebody else holds the lock. By default not at all.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.0.wait = Wait::AtMost(limit);
        self
    }

    /// Waits for the lock however long it takes.
    pub fn wait_forever(mut self) -> Self {
        self.0.wait = Wait::Forever;
        self
    }

    /// Whether the lease is kept alive while it is held. By default it is; without, the lock is
    /// lost after its ttl.
    pub fn renew(mut self, renew: bool) -> Self {
        self.0.terms.renew = renew;
        self
    }

    /// Upper bound of the whole hold: then the lock is lost ([`LossCause::MaxHold`]). By default
    /// there is none, and a holder that hangs keeps the lock as long as its process lives.
    ///
    /// [`LossCause::MaxHold`]: crate::LossCause::MaxHold
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.0.terms.max_hold = Some(limit);
        self
    }

    /// Keeps the key for at least this long, counted from the grant, also when the lock is released
    /// earlier: for jobs that are quicker than the clocks of their machines agree. At most the ttl.
    pub fn min_hold(mut self, least: Duration) -> Self {
        self.0.terms.min_hold = least;
        self
    }

    /// A view of the lease to come.
    pub(crate) fn lease(&self) -> Lease {
        self.0.lease.clone()
    }

    /// Takes the lock.
    pub(crate) async fn acquire(self) -> Result<LockGuard, LockError> {
        let options = *self.0;
        let manager = options.manager?;
        if let Some(error) = options.bad_key {
            return Err(error);
        }
        let Options { key, template, terms, wait, lease, .. } = options;
        key.check()?;
        check(&terms).map_err(|reason| LockError::invalid_option(key.clone(), reason))?;
        manager.check_open()?;
        if held::holds(manager.id(), &key) {
            return Err(LockError::AlreadyHeld { key });
        }

        let started = Instant::now();
        let wait_until = match wait {
            Wait::AtMost(limit) => started.checked_add(limit),
            Wait::Forever => None,
        };
        let manager = &manager;
        let request = Acquisition { manager, key: &key, template, terms, started, wait_until };
        match request.run().await {
            Ok(holding) => {
                holding.report_grant();
                lease.begin(&holding);
                Ok(LockGuard::new(manager.clone(), holding))
            }
            Err(error) => {
                let waited = started.elapsed();
                match &error {
                    LockError::Busy { holder, retry_after, .. } => {
                        let holder = holder.as_deref();
                        tracing::debug!(%key, template, ?waited, holder, ?retry_after, "busy");
                    }
                    error => tracing::warn!(%key, template, ?waited, %error, "could not acquire"),
                }
                Err(error)
            }
        }
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

fn check(terms: &Terms) -> Result<(), Cow<'static, str>> {
    let Terms { ttl, renew, max_hold, min_hold } = *terms;
    if renew && ttl < MIN_TTL {
        return Err(format!(
            "a ttl of {ttl:?} leaves no time to renew it; \
             the least is {MIN_TTL:?}, or {MIN_TTL_UNRENEWED:?} without renewal"
        )
        .into());
    }
    if ttl < MIN_TTL_UNRENEWED {
        let least = MIN_TTL_UNRENEWED;
        return Err(format!("a ttl of {ttl:?} is too short; the least is {least:?}").into());
    }
    if ttl > MAX_DURATION {
        return Err(format!("a ttl of {ttl:?} is longer than 24 hours").into());
    }
    match max_hold {
        Some(Duration::ZERO) => Err("a `max_hold` of zero leaves no time to hold it".into()),
        Some(limit) if limit > MAX_DURATION => Err("`max_hold` is longer than 24 hours".into()),
        Some(limit) if limit < min_hold => Err("`min_hold` is longer than `max_hold`".into()),
        // A longer one would not outlive a crash of the holder.
        _ if ttl < min_hold => Err("`min_hold` is longer than `ttl`".into()),
        _ => Ok(()),
    }
}
