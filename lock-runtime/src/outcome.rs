//! How a locked function returns a failed lock: the [`Outcome`] trait.

use crate::LockError;

/// A return type that can say that the lock failed.
///
/// It is implemented for every `Result<T, E>` whose error can be made from a [`LockError`], and for
/// the responses of web frameworks behind features. Other functions say what to return with
/// `or_else = …`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot say that the lock failed",
    label = "a locked function has to return this when the lock is busy, lost or unavailable",
    note = "return a `Result<_, E>` where `E: From<LockError>`, or say what to return instead with `or_else = |error| …`"
)]
pub trait Outcome: Sized {
    /// What to return when the lock failed.
    fn failed(error: LockError) -> Self;

    /// Whether this is a failure itself. A failure of the body is kept when the lock was lost, too;
    /// a success is replaced.
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
