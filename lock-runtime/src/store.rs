//! How a lock is kept: the [`Store`] trait.

pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod redlock;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime;

use crate::{Fence, Key, Token};

/// A boxed future, as the methods of [`Store`] return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keeps locks: takes them under a token and a time to live, renews and releases them by token.
///
/// [`acquire`](Self::acquire) and [`release`](Self::release) run on the caller's runtime,
/// [`renew`](Self::renew) and the releases that nobody awaits on the manager's own thread. Each
/// future ends by itself within a bound.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The address for errors and logs, without a password.
    fn name(&self) -> &str;

    /// Tells apart by which of the store's servers a lock is kept. Renewals of one shard are sent
    /// together; those of others do not wait for the answers.
    fn shard(&self, key: &Key) -> u64 {
        let _ = key;
        0
    }

    /// Takes the lock in one atomic step, or waits for it as long as the claim says.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`]. After one that [may have run](StoreError::may_have_run), or that follows
    /// [an answer](Claim::note_answer), the caller releases the token.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped the lock may have been taken: the caller releases the token.
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Acquired, StoreError>>;

    /// Renews leases, and answers for each one in the given order. Called without leases, it
    /// prepares for later calls.
    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Owned, StoreError>>>;

    /// Releases a lock if the token still holds it.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`]; releasing again is always safe.
    fn release<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Owned, StoreError>>;
}

/// A wish to hold a lock.
#[derive(Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub key: Key,
    /// Who asks.
    pub token: Token,
    /// How long the lease lives without renewal.
    pub ttl: Duration,
    /// Until when to wait while somebody else holds it; none: for ever. A past instant: ask once.
    pub wait_until: Option<Instant>,
    /// How often the request was answered with [`Acquired::Again`] before.
    pub attempt: u32,
    answered: Mutex<Option<Instant>>,
}

impl Claim {
    pub(crate) fn new(
        key: Key,
        token: Token,
        ttl: Duration,
        wait_until: Option<Instant>,
        attempt: u32,
    ) -> Self {
        Self { key, token, ttl, wait_until, attempt, answered: Mutex::default() }
    }

    /// Tells that the store has answered that the claim waits: an outage is counted from now, and
    /// the token is released if the claim fails.
    pub fn note_answer(&self) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    pub(crate) fn answered(&self) -> Option<Instant> {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a [`Claim`].
#[derive(Debug)]
pub enum Acquired {
    /// The token holds the lock since some instant after `sent`.
    Granted {
        /// An instant before the request that was granted was sent.
        sent: Instant,
        /// The number of the grant, greater than those of all grants of this lock before.
        fence: Fence,
    },
    /// Somebody else holds it, and the time to wait is over.
    Busy {
        /// What the key holds.
        holder: Option<Box<str>>,
        /// When it expires; none if it never does.
        expires_in: Option<Duration>,
    },
    /// It was not granted, and the token holds nothing; there is time to ask again, under a new token.
    Again,
    /// The key is used for something that is not a lock.
    NotALock {
        /// What the key is.
        kind: String,
    },
}

/// A lease to prolong.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Renewal {
    /// The lock.
    pub key: Key,
    /// Its holder.
    pub token: Token,
    /// How long it shall live from now on.
    pub ttl: Duration,
    /// How long an answer may take before something seems to be wrong with the connection.
    pub patience: Duration,
}

/// A lock to give back.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Release {
    /// The lock.
    pub key: Key,
    /// Its holder.
    pub token: Token,
    /// Until when the key shall stay taken, for `min_hold`.
    pub keep_until: Option<Instant>,
}

impl Release {
    /// How long from now the key shall stay taken, if at all.
    #[must_use]
    pub fn keep(&self) -> Option<Duration> {
        let keep = self.keep_until?.saturating_duration_since(Instant::now());
        (!keep.is_zero()).then_some(keep)
    }
}

/// Whether the key held the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owned {
    /// It did.
    Yes,
    /// It was gone, or somebody else's.
    No,
}

/// Why a store did not answer a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It was not executed, and asking again will not help: wrong password, missing permission.
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
    /// It was not executed, and may be later: server down, loading, read-only.
    #[error(transparent)]
    NotExecuted(Box<dyn Error + Send + Sync>),
    /// The connection broke while the answer was awaited: it may have been executed.
    #[error(transparent)]
    Disconnected(Box<dyn Error + Send + Sync>),
    /// There was no answer in time, or one that makes no sense: it may have been executed.
    #[error(transparent)]
    Unknown(Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// The answer has not come in time.
    pub(crate) fn no_answer() -> Self {
        Self::Unknown("no answer in time".into())
    }

    /// Whether the request may have been executed, or may still be.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        matches!(self, Self::Disconnected(_) | Self::Unknown(_))
    }
}

/// The runtime this is called on; tokio panics where its timers or sockets are used without one.
fn current_runtime() -> Result<runtime::Handle, StoreError> {
    let none = |_| StoreError::Refused("this needs a Tokio runtime, and there is none here".into());
    runtime::Handle::try_current().map_err(none)
}
