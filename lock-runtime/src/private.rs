//! What generated code calls. Not part of the public interface.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use crate::{LockError, LockManager};

pub use crate::guard::Lease;
pub use crate::key::{Key, KeyParts};
pub use crate::outcome::Outcome;
pub use crate::request::LockRequest;

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

/// What a function returns when the lock failed, and which outputs of its body are failures.
///
/// What the types have to be able to do is asked where this is made: asked by [`run`], rustc would
/// tell what is missing once for each part of `run(…).await`.
#[derive(Debug)]
pub struct OnFailure<E, R> {
    or_else: E,
    make: fn(E, LockError) -> R,
    is_failure: fn(&R) -> bool,
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
pub async fn run<F: Future, E>(
    request: LockRequest,
    on_failure: OnFailure<E, F::Output>,
    body: Pin<&mut Option<F>>,
) -> F::Output {
    let OnFailure { or_else, make, is_failure } = on_failure;
    match locked(request, body, is_failure).await {
        Ok(output) => output,
        Err(error) => make(or_else, error),
    }
}

async fn locked<F: Future>(
    request: LockRequest,
    body: Pin<&mut Option<F>>,
    is_failure: fn(&F::Output) -> bool,
) -> Result<F::Output, LockError> {
    /// The body ends before the lock does, also when this future is dropped or panics: nothing of
    /// it runs when the next holder may have begun.
    struct Body<'a, F>(Pin<&'a mut Option<F>>);
    impl<F> Drop for Body<'_, F> {
        fn drop(&mut self) {
            self.0.set(None);
        }
    }

    let guard = request.await?;
    let mut body = Body(body);
    let output = guard.drive(body.0.as_mut()).await;
    drop(body);
    let output = output?;
    match guard.release().await {
        Err(lost @ LockError::Lost { .. }) if !is_failure(&output) => Err(lost),
        // A release that failed goes on in the background and takes nothing from the result.
        _ => Ok(output),
    }
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
