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

/// Runs `body` under the lock.
pub async fn run<F>(request: LockRequest, body: Pin<&mut Option<F>>) -> F::Output
where
    F: Future,
    F::Output: Outcome,
{
    run_or_else(request, body, Outcome::failed, Outcome::is_failure).await
}

/// Runs `body` under the lock; `or_else` makes the output when the lock failed.
pub async fn run_or_else<F: Future>(
    request: LockRequest,
    body: Pin<&mut Option<F>>,
    or_else: impl FnOnce(LockError) -> F::Output,
    is_failure: fn(&F::Output) -> bool,
) -> F::Output {
    match locked(request, body, is_failure).await {
        Ok(output) => output,
        Err(error) => or_else(error),
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
pub struct Probe<R>(PhantomData<fn(R)>);

impl<R> Probe<R> {
    /// A probe for the type `R`.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "only generated code makes one")]
    pub fn new() -> Self {
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
