//! [`Run`]: the future that a locked function awaits, a body under a lock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::LockError;
use crate::guard::{LockGuard, LossSignal};
use crate::request::LockRequest;
use crate::store::BoxFuture;

/// What a function returns on a lock failure, and which outputs of its body are failures.
#[derive(Debug)]
pub struct OnFailure<E, R> {
    pub(crate) or_else: E,
    pub(crate) make: fn(E, LockError) -> R,
    pub(crate) is_failure: fn(&R) -> bool,
}

impl<E, R> OnFailure<E, R> {
    /// The function's return value when the lock has failed before the end of the body.
    fn failed(self, error: LockError) -> R {
        (self.make)(self.or_else, error)
    }

    /// The function's return value after the body.
    fn finished(self, output: R, released: Result<(), LockError>) -> R {
        match released {
            // A failed release goes on in the background, and does not affect the output.
            Ok(()) | Err(LockError::Unavailable { .. }) => output,
            Err(_) if (self.is_failure)(&output) => output,
            Err(error) => self.failed(error),
        }
    }
}

/// Takes the lock, polls the body while it is held, and releases it.
///
/// Written by hand, because it is part of the future of every locked function: an `async fn` of the
/// same steps takes three times the space, for variables that it keeps longer than necessary.
pub(crate) struct Run<'a, F: Future, E> {
    body: Pin<&'a mut Option<F>>,
    /// `None` once the function has returned.
    running: Option<Running<E, F::Output>>,
}

type Running<E, R> = (Phase<R>, OnFailure<E, R>);

enum Phase<T> {
    Acquiring(BoxFuture<'static, Result<LockGuard, LockError>>),
    Holding(LockGuard, LossSignal),
    Releasing(BoxFuture<'static, Result<(), LockError>>, Box<T>),
}

impl<'a, F: Future, E> Run<'a, F, E> {
    pub(crate) fn new(
        request: LockRequest,
        on_failure: OnFailure<E, F::Output>,
        body: Pin<&'a mut Option<F>>,
    ) -> Self {
        let phase = Phase::Acquiring(Box::pin(request.acquire()));
        Self { body, running: Some((phase, on_failure)) }
    }
}

impl<F: Future, E> Future for Run<'_, F, E> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((mut phase, on_failure)) = self.running.take() else { polled_after_return() };
        loop {
            phase = match phase {
                Phase::Acquiring(mut acquire) => match acquire.as_mut().poll(cx) {
                    Poll::Ready(Ok(guard)) => {
                        let loss = guard.loss_signal();
                        Phase::Holding(guard, loss)
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(on_failure.failed(error)),
                    Poll::Pending => {
                        phase = Phase::Acquiring(acquire);
                        break;
                    }
                },
                Phase::Holding(mut guard, mut loss) => {
                    let Some(body) = self.body.as_mut().as_pin_mut() else { polled_after_return() };
                    let Poll::Ready(output) = guard.poll_held(&mut loss, body, cx) else {
                        phase = Phase::Holding(guard, loss);
                        break;
                    };
                    // Everything that belongs to the body is dropped before the lock is released.
                    self.body.set(None);
                    match output {
                        Ok(output) => Phase::Releasing(guard.begin_release(), Box::new(output)),
                        Err(error) => return Poll::Ready(on_failure.failed(error)),
                    }
                }
                Phase::Releasing(mut release, output) => match release.as_mut().poll(cx) {
                    Poll::Ready(released) => {
                        return Poll::Ready(on_failure.finished(*output, released));
                    }
                    Poll::Pending => {
                        phase = Phase::Releasing(release, output);
                        break;
                    }
                },
            };
        }
        self.running = Some((phase, on_failure));
        Poll::Pending
    }
}

/// Panics, as the future of an `async fn` does in this case.
fn polled_after_return() -> ! {
    panic!("a locked function was polled after it had returned")
}

/// No field is pinned in place: the body is pinned in the frame that it is borrowed from.
impl<F: Future, E> Unpin for Run<'_, F, E> {}

/// Drops the body before the guard, even when this is dropped midway: no part of the body runs once
/// the next holder may have started.
impl<F: Future, E> Drop for Run<'_, F, E> {
    fn drop(&mut self) {
        self.body.set(None);
    }
}
