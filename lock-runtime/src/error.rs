//! [`LockError`]: why a lock could not be taken or kept.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::key::Key;
use crate::store::error::StoreError;

/// Why a lock could not be taken or kept.
///
/// Each variant says what is known about the lock. The body of a locked function did not run,
/// except after [`Lost`](Self::Lost).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another holder has the lock, and still had it when the wait was over.
    #[error("lock {key:?} is busy{}", Busy { waited: *waited, holder: holder.as_deref(), retry_after: *retry_after })]
    #[non_exhaustive]
    Busy {
        /// The lock.
        key: Key,
        /// How long this call waited for it.
        waited: Duration,
        /// The content of the key: the token of the holder, or what another program wrote.
        holder: Option<Box<str>>,
        /// How long until the lock expires if its holder does not renew it. `None` for a key
        /// without an expiry, which this crate never writes.
        retry_after: Option<Duration>,
    },

    /// The lock was held and then lost. The body may have run in part, or even to its end, and
    /// another holder may have started in the meantime.
    #[error("lock {key:?} was lost: {cause}")]
    #[non_exhaustive]
    Lost {
        /// The lock.
        key: Key,
        /// How the lock was lost.
        cause: LossCause,
    },

    /// The store could not be used, or did not reply in time. If the lock was taken all the same,
    /// it is being released in the background.
    #[error("{}{step} failed at {store}: {source}", Subject(key.as_ref()))]
    #[non_exhaustive]
    Unavailable {
        /// The lock; `None` while connecting.
        key: Option<Key>,
        /// The operation that failed.
        step: Step,
        /// The store's address, without its password.
        store: Arc<str>,
        /// The cause.
        source: StoreError,
    },

    /// This call chain already holds the lock: waiting for it would never end.
    #[error(
        "lock {key:?} is already held by this call chain; take it in one place, or move the inner work to a function without the lock"
    )]
    #[non_exhaustive]
    AlreadyHeld {
        /// The lock.
        key: Key,
    },

    /// The key cannot name a lock.
    #[error("lock {key:?} cannot be used: {reason}")]
    #[non_exhaustive]
    InvalidKey {
        /// The key, or as much of it as could be built.
        key: Key,
        /// What is wrong with the key.
        reason: Cow<'static, str>,
    },

    /// A duration of this lock is out of range or contradicts another one.
    #[error("lock {key:?} cannot be requested: {reason}")]
    #[non_exhaustive]
    InvalidOption {
        /// The lock.
        key: Key,
        /// What is wrong, with the values that are allowed.
        reason: Cow<'static, str>,
    },

    /// There is no store to keep locks in: no manager is installed, the URL is invalid, or the
    /// manager was shut down.
    #[error("no lock store: {reason}")]
    #[non_exhaustive]
    NotConfigured {
        /// What is missing, and how to provide it.
        reason: Cow<'static, str>,
    },
}

impl LockError {
    pub(crate) fn invalid_key(key: Key, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidKey { key, reason: reason.into() }
    }

    pub(crate) fn invalid_option(key: Key, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidOption { key, reason: reason.into() }
    }

    pub(crate) fn not_configured(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::NotConfigured { reason: reason.into() }
    }

    /// The lock that the error is about, if there is one.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Busy { key, .. }
            | Self::Lost { key, .. }
            | Self::AlreadyHeld { key }
            | Self::InvalidKey { key, .. }
            | Self::InvalidOption { key, .. } => Some(key),
            Self::Unavailable { key, .. } => key.as_ref(),
            Self::NotConfigured { .. } => None,
        }
    }

    /// Whether another holder has the lock.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// Whether the lock was held and then lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Whether the store could not be used.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

/// For locked functions that return [`io::Result`].
impl From<LockError> for io::Error {
    fn from(error: LockError) -> Self {
        let kind = match error {
            LockError::Busy { .. } => io::ErrorKind::WouldBlock,
            LockError::InvalidKey { .. } | LockError::InvalidOption { .. } => {
                io::ErrorKind::InvalidInput
            }
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Why a lease ended before its holder was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// No renewal was confirmed before the lease ran out on this machine's own clock.
    Expired,
    /// The key is gone, or holds something else.
    Taken,
    /// The lock was held for as long as `max_hold` allows.
    MaxHold,
    /// The holder has released the lock. Only a [`Lease`](crate::Lease) can see this, because it
    /// may outlive the hold.
    Released,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ran out before a renewal was confirmed",
            Self::Taken => "its key was deleted, has expired, or now belongs to another holder",
            Self::MaxHold => "it was held for as long as `max_hold` allows",
            Self::Released => "its holder has released it",
        })
    }
}

/// The operation during which the store failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Making the first connection.
    Connect,
    /// Taking a lock, or waiting for it.
    Acquire,
    /// Releasing a lock. The release is retried in the background until the lease has run out.
    Release,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Acquire => "acquire",
            Self::Release => "release",
        })
    }
}

/// The beginning of a message: the lock that it is about.
struct Subject<'a>(Option<&'a Key>);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "lock {key:?}: "),
            None => Ok(()),
        }
    }
}

/// What is known about the holder of a busy lock.
struct Busy<'a> {
    waited: Duration,
    holder: Option<&'a str>,
    retry_after: Option<Duration>,
}

impl fmt::Display for Busy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.waited.is_zero() {
            write!(f, " after a wait of {:.1?}", self.waited)?;
        }
        match (self.holder, self.retry_after) {
            (Some(holder), Some(left)) => {
                write!(f, "; held by {holder:?}, whose lease ends in {left:.1?} unless renewed")
            }
            (Some(holder), None) => {
                write!(
                    f,
                    "; its key holds {holder:?} without an expiry, so it is not a lock of this crate; delete the key if it is not needed"
                )
            }
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_small_inside_application_errors() {
        // clippy::result_large_err complains from 128 bytes on.
        assert!(size_of::<LockError>() <= 88, "{}", size_of::<LockError>());
    }

    #[test]
    fn names_the_kind_the_key_and_the_operation() {
        let down = LockError::Unavailable {
            key: Some("order:1".into()),
            step: Step::Acquire,
            store: "redis://127.0.0.1:6379/0".into(),
            source: StoreError::NotExecuted("connection refused".into()),
        };
        assert!(down.is_unavailable() && !down.is_busy() && !down.is_lost());
        assert_eq!(
            down.to_string(),
            r#"lock "order:1": acquire failed at redis://127.0.0.1:6379/0: connection refused"#
        );
        assert!(std::error::Error::source(&down).is_some());
    }

    #[test]
    fn busy_describes_the_holder() {
        let busy = |holder: Option<&str>, retry_after| LockError::Busy {
            key: "k".into(),
            waited: Duration::ZERO,
            holder: holder.map(Into::into),
            retry_after,
        };
        assert_eq!(busy(None, None).to_string(), r#"lock "k" is busy"#);
        assert_eq!(
            busy(Some("ab"), Some(Duration::from_secs(3))).to_string(),
            r#"lock "k" is busy; held by "ab", whose lease ends in 3.0s unless renewed"#
        );
        assert!(busy(Some("ab"), None).to_string().contains("without an expiry"));
    }
}
