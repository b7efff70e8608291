//! [`Outcome`]: return types that can express a lock failure.

use crate::error::LockError;

/// A return type that can express a lock failure.
///
/// Implemented for every `Result<T, E>` where `E: From<LockError>`, and behind features for the
/// responses of web frameworks. Other functions name what to return with `or_else = …`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot express a lock failure",
    label = "a locked function returns this when the lock is busy, lost or unavailable",
    note = "return a `Result<_, E>` where `E: From<LockError>`, or name another return value with `or_else = |error| …`"
)]
pub trait Outcome: Sized {
    /// The return value for a lock failure.
    fn failed(error: LockError) -> Self;

    /// Whether the body itself has failed. If the lock is lost as well, the body's failure is kept
    /// and its success is replaced.
    fn is_failure(&self) -> bool;
}

impl<T, E: From<LockError>> Outcome for Result<T, E> {
    fn failed(error: LockError) -> Self {
        Err(error.into())
    }

    fn is_failure(&self) -> bool {
        self.is_err()
    }
}
