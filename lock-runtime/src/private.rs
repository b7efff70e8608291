//! What generated code calls. Not part of the public interface.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use crate::run::Run;
use crate::{LockError, LockManager};

pub use crate::guard::Lease;
pub use crate::key::{Key, KeyParts};
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

/// The key that an expression gives.
pub fn key(key: impl Into<Key>) -> Result<Key, LockError> {
    Ok(key.into())
}

/// A view of the lease that the request will get.
#[must_use]
pub fn lease(request: &LockRequest) -> Lease {
    request.lease()
}

/// The return type says it itself.
#[must_use]
pub fn outcome<R: Outcome>() -> OnFailure<(), R> {
    OnFailure { or_else: (), make: |(), error| R::failed(error), is_failure: R::is_failure }
}

/// `or_else` says it.
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
/// What the types have to be able to do was asked where `on_failure` was made: asked here, rustc
/// would tell what is missing once for each part of `run(…).await`.
pub fn run<F: Future, E>(
    request: LockRequest,
    on_failure: OnFailure<E, F::Output>,
    body: Pin<&mut Option<F>>,
) -> impl Future<Output = F::Output> {
    Run::new(request, on_failure, body)
}

/// Finds out whether an output is a failure where the return type need not be an [`Outcome`].
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
    /// An `Err` is a failure. Being inherent, this is found before [`AnyOutput::is_failure`].
    #[must_use]
    pub fn is_failure(&self) -> fn(&Result<T, E>) -> bool {
        Result::is_err
    }
}

/// The answer of a [`Probe`] for all other types: no value is known to be a failure.
pub trait AnyOutput<R> {
    /// Never a failure.
    fn is_failure(&self) -> fn(&R) -> bool;
}

impl<R> AnyOutput<R> for Probe<R> {
    fn is_failure(&self) -> fn(&R) -> bool {
        |_| false
    }
}
