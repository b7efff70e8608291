//! What generated code calls. Not part of the public interface.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize, NonZeroU8,
    NonZeroU16, NonZeroU32, NonZeroU64, NonZeroU128, NonZeroUsize,
};
use std::pin::Pin;

use crate::error::LockError;
use crate::manager::LockManager;
use crate::run::Run;

pub use crate::key::Key;
pub use crate::key::escaping::KeyParts;
pub use crate::lease::Lease;
pub use crate::outcome::Outcome;
pub use crate::request::LockRequest;
pub use crate::run::OnFailure;

/// A request to the installed manager.
pub fn request(template: &'static str, key: Result<Key, LockError>) -> LockRequest {
    LockRequest::of_template(LockManager::global(), template, key)
}

/// A request to the given manager.
pub fn request_on(
    manager: &LockManager,
    template: &'static str,
    key: Result<Key, LockError>,
) -> LockRequest {
    LockRequest::of_template(Ok(manager.clone()), template, key)
}

/// The key that an expression evaluates to.
pub fn key(key: impl Into<Key>) -> Result<Key, LockError> {
    Ok(key.into())
}

/// Checks that a placeholder with leading zeros is a number.
pub fn number<N: Number>(number: &N) -> &N {
    number
}

/// A type whose values are padded with leading zeros when they are formatted with a width. Values
/// of other types are padded with spaces, and two of them could yield the same key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot have leading zeros",
    label = "not a number",
    note = "write the placeholder without `:0…`, or name a field that is a number"
)]
pub trait Number: fmt::Display {}

macro_rules! numbers {
    ($($number:ty)*) => { $(impl Number for $number {})* };
}
numbers! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 }
numbers! { NonZeroU8 NonZeroU16 NonZeroU32 NonZeroU64 NonZeroU128 NonZeroUsize }
numbers! { NonZeroI8 NonZeroI16 NonZeroI32 NonZeroI64 NonZeroI128 NonZeroIsize }
impl<N: Number + ?Sized> Number for &N {}
impl<N: Number + ?Sized> Number for &mut N {}

/// A view of the lease that the request will be granted.
#[must_use]
pub fn lease(request: &LockRequest) -> Lease {
    request.lease()
}

/// What the function returns on a lock failure, by its return type.
#[must_use]
pub fn outcome<R: Outcome>() -> OnFailure<(), R> {
    OnFailure { or_else: (), make: |(), error| R::failed(error), is_failure: R::is_failure }
}

/// What the function returns on a lock failure, by `or_else`.
pub fn or_else<F, E>(
    _body: &Pin<&mut Option<F>>,
    or_else: E,
    is_failure: fn(&F::Output) -> bool,
) -> OnFailure<E, F::Output>
where
    F: Future,
    E: FnOnce(LockError) -> F::Output,
{
    OnFailure { or_else, make: |or_else, error| or_else(error), is_failure }
}

/// Runs `body` under the lock.
///
/// The bounds on the types are stated where `on_failure` is made: stated here, rustc would report a
/// missing implementation once for each part of `run(…).await`.
pub fn run<F: Future, E>(
    request: LockRequest,
    on_failure: OnFailure<E, F::Output>,
    body: Pin<&mut Option<F>>,
) -> impl Future<Output = F::Output> {
    Run::new(request, on_failure, body)
}

/// Decides whether an output is a failure where the return type need not be an [`Outcome`].
#[derive(Debug)]
pub struct Probe<R>(PhantomData<fn() -> R>);

impl<R> Probe<R> {
    /// A probe for the output of `body`.
    #[must_use]
    pub fn of<F: Future<Output = R>>(_body: &Pin<&mut Option<F>>) -> Self {
        Self(PhantomData)
    }
}

impl<T, E> Probe<Result<T, E>> {
    /// An `Err` is a failure. As an inherent method, this takes precedence over
    /// [`AnyOutput::is_failure`].
    #[must_use]
    pub fn is_failure(&self) -> fn(&Result<T, E>) -> bool {
        Result::is_err
    }
}

/// The fallback of a [`Probe`] for all other types: no value is known to be a failure.
pub trait AnyOutput<R> {
    /// Never a failure.
    fn is_failure(&self) -> fn(&R) -> bool;
}

impl<R> AnyOutput<R> for Probe<R> {
    fn is_failure(&self) -> fn(&R) -> bool {
        |_| false
    }
}
