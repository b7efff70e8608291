//! [`Store`]: the trait of the backends that keep locks.

pub(crate) mod error;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod url;

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub use self::error::StoreError;
use crate::fence::Fence;
use crate::key::Key;
use crate::sync::lock;
use crate::token::Token;

/// A boxed future, as the methods of [`Store`] return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keeps locks: takes them under a token and a time to live, renews and releases them by token.
///
/// [`acquire`](Self::acquire) and [`release`](Self::release) run on the caller's runtime;
/// [`start`](Self::start), [`renew`](Self::renew) and background releases run on the manager's own
/// thread. Each future completes by itself, within a bounded time.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The address for errors and logs, without a password.
    fn name(&self) -> &str;

    /// Identifies the server that keeps a lock. Renewals of one shard are sent together, and do not
    /// wait for the replies of other shards.
    fn shard(&self, key: &Key) -> u64 {
        let _ = key;
        0
    }

    /// Prepares for later calls: connects, and follows the topology from now on. Called when the
    /// manager's thread starts. A failure does not matter, because each later call connects as
    /// well.
    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    /// Takes the lock in one atomic step, or waits for it as long as the claim allows.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`]. After an error that [may have run](StoreError::may_have_run), or that
    /// follows [a reply](Claim::note_answer), the caller releases the token.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the lock may have been taken: the caller releases the token.
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Acquired, StoreError>>;

    /// Renews leases, and returns the result of each in the given order.
    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Renewed>>;

    /// Releases a lock if the token still holds it.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`]; releasing again is always safe.
    fn release<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Owned, StoreError>>;
}

/// The result of one renewal.
pub type Renewed = Result<Owned, StoreError>;

/// One attempt to take a lock, under a token of its own.
#[derive(Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub key: Key,
    /// The token that is to hold it.
    pub token: Token,
    /// How long the lease lives without renewal.
    pub ttl: Duration,
    /// How long to wait while the lock is busy; `None`: without a limit. A past instant: try once.
    pub wait_until: Option<Instant>,
    /// The number of earlier attempts of the same request that ended with [`Acquired::Again`].
    pub attempt: u32,
    replied: Mutex<Option<Instant>>,
}

impl Claim {
    pub(crate) fn new(
        key: Key,
        token: Token,
        ttl: Duration,
        wait_until: Option<Instant>,
        attempt: u32,
    ) -> Self {
        Self { key, token, ttl, wait_until, attempt, replied: Mutex::default() }
    }

    /// Records a reply of the store while the claim waits: an outage counts from now on, and the
    /// token is released if the claim fails.
    pub fn note_answer(&self) {
        *lock(&self.replied) = Some(Instant::now());
    }

    /// When the store last replied while the claim waited.
    pub(crate) fn replied(&self) -> Option<Instant> {
        *lock(&self.replied)
    }
}

/// The outcome of a [`Claim`].
#[derive(Debug)]
pub enum Acquired {
    /// The token has held the lock since some instant after `sent`.
    Granted {
        /// An instant before the request that was granted was sent.
        sent: Instant,
        /// The number of the grant, greater than those of all earlier grants of this lock.
        fence: Fence,
    },
    /// Another holder has the lock, and the wait is over.
    Busy {
        /// The content of the key.
        holder: Option<Box<str>>,
        /// When the key expires; `None` if it never does.
        expires_in: Option<Duration>,
    },
    /// The lock was not granted, and the token holds nothing. There is time left for another
    /// attempt, under a new token.
    Again,
    /// The key holds something other than a lock.
    NotALock {
        /// The type of the key's content.
        kind: String,
    },
}

/// A lease to renew.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Renewal {
    /// The lock.
    pub key: Key,
    /// Its holder.
    pub token: Token,
    /// The lease's new time to live, from now on.
    pub ttl: Duration,
    /// How long the reply may take before the connection becomes suspect.
    pub patience: Duration,
}

/// A lock to release.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Release {
    /// The lock.
    pub key: Key,
    /// Its holder.
    pub token: Token,
    /// Until when the key stays taken, for `min_hold`.
    pub keep_until: Option<Instant>,
}

impl Release {
    /// How long from now the key stays taken, if at all.
    #[must_use]
    pub fn keep(&self) -> Option<Duration> {
        let keep = self.keep_until?.saturating_duration_since(Instant::now());
        (!keep.is_zero()).then_some(keep)
    }
}

/// Whether the key held the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owned {
    /// The key held the token.
    Yes,
    /// The key was gone, or held something else.
    No,
}
