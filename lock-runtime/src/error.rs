//! Why a lock could not be taken or kept.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::Key;
use crate::store::StoreError;

/// What happened to a lock that could not be taken or kept.
///
/// Each variant says what is known of the lock. The body of a locked function did not run, except
/// after [`Lost`](Self::Lost).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else holds the lock, and still did when the time to wait was over.
    #[error("lock {key:?} is busy{}", Busy { waited: *waited, holder: holder.as_deref(), retry_after: *retry_after })]
    #[non_exhaustive]
    Busy {
        /// The lock.
        key: Key,
        /// How long this call waited for it.
        waited: Duration,
        /// What the key holds: the token of the holder, or what another program wrote.
        holder: Option<Box<str>>,
        /// When the lock expires if its holder does not renew it. `None` for a key without an
        /// expiry, which no lock of this crate has.
        retry_after: Option<Duration>,
    },

    /// The lock was held, and was lost before the end. The body may have run in part, or even to
    /// its end, and another holder may have started meanwhile.
    #[error("lock {key:?} was lost: {cause}")]
    #[non_exhaustive]
    Lost {
        /// The lock.
        key: Key,
        /// How it was lost.
        cause: LossCause,
    },

    /// The store could not be used, or did not say in time whether the lock was taken. If it was,
    /// it is being released in the background.
    #[error("{}{step} failed at {store}: {source}", Subject(key.as_ref()))]
    #[non_exhaustive]
    Unavailable {
        /// The lock; none while connecting.
        key: Option<Key>,
        /// What was being done.
        step: Step,
        /// The store's address, without its password.
        store: Arc<str>,
        /// What went wrong.
        source: StoreError,
    },

    /// This call chain holds the lock already: waiting for it would never end.
    #[error(
        "lock {key:?} is already held by this call chain; lock in one place, or split the inner function off"
    )]
    #[non_exhaustive]
    AlreadyHeld {
        /// The lock.
        key: Key,
    },

    /// The key cannot be a lock.
    #[error("lock {key:?} cannot be used: {reason}")]
    #[non_exhaustive]
    InvalidKey {
        /// The key, or as much of it as could be made.
        key: Key,
        /// What is wrong with it.
        reason: Cow<'static, str>,
    },

    /// A duration of this lock is out of range, or contradicts another.
    #[error("lock {key:?} cannot be requested: {reason}")]
    #[non_exhaustive]
    InvalidOption {
        /// The lock.
        key: Key,
        /// What is wrong, with the values that would do.
        reason: Cow<'static, str>,
    },

    /// There is no store to keep locks in: none installed, a URL that is none, or a manager that
    /// was shut down.
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

    /// The lock that this is about, where there is one.
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

    /// Whether somebody else holds the lock.
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

/// So that functions which return [`io::Result`] can be locked.
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

/// How a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// No renewal was confirmed before the lease ran out on this machine's own clock.
    Expired,
    /// The store says that the key is gone or somebody else's.
    Taken,
    /// The lock was held for as long as `max_hold` allows.
    MaxHold,
    /// Its holder has given it back. Only a [`Lease`](crate::Lease) can see that, because it may
    /// outlive the hold.
    Released,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ran out before a renewal was confirmed",
            Self::Taken => "its key was deleted, expired, or is somebody else's now",
            Self::MaxHold => "it was held as long as `max_hold` allows",
            Self::Released => "its holder has given it back",
        })
    }
}

/// What was being done when the store failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Making the first connection.
    Connect,
    /// Taking a lock, or waiting for it.
    Acquire,
    /// Giving a lock back. It is tried again in the background until the lease has run out.
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

/// The beginning of a message: which lock it is about.
struct Subject<'a>(Option<&'a Key>);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "lock {key:?}: "),
            None => Ok(()),
        }
    }
}

/// What is known of the holder of a busy lock.
struct Busy<'a> {
    waited: Duration,
    holder: Option<&'a str>,
    retry_after: Option<Duration>,
}

impl fmt::Display for Busy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.waited.is_zero() {
            write!(f, " after {:.1?} of waiting", self.waited)?;
        }
        match (self.holder, self.retry_after) {
            (Some(holder), Some(left)) => {
                write!(f, "; held by {holder:?}, whose lease ends in {left:.1?} unless renewed")
            }
            (Some(holder), None) => {
                write!(
                    f,
                    "; its key holds {holder:?} without an expiry, which is no lock of ours: delete the key if nobody needs it"
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
    fn stays_small_inside_the_errors_of_applications() {
        // clippy::result_large_err complains from 128 bytes on.
        assert!(size_of::<LockError>() <= 88, "{}", size_of::<LockError>());
    }

    #[test]
    fn c079_kinds_can_be_told_apart_and_texts_name_key_and_step() {
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
    fn busy_says_what_is_known_of_the_holder() {
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
