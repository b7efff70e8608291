//! [`Run`]: a body under a lock, which is what a locked function awaits.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::LockError;
use crate::guard::{LockGuard, LossSignal};
use crate::request::LockRequest;
use crate::store::BoxFuture;

/// What a function returns when the lock failed, and which outputs of its body are failures.
#[derive(Debug)]
pub struct OnFailure<E, R> {
    pub(crate) or_else: E,
    pub(crate) make: fn(E, LockError) -> R,
    pub(crate) is_failure: fn(&R) -> bool,
}

/// Takes the lock, polls the body while it is held, and releases it.
///
/// Written by hand, because it is part of the future of every locked function: an `async fn` of the
/// same steps takes three times the room, for variables that it keeps longer than they are needed.
pub(crate) struct Run<'a, F: Future, E> {
    body: Pin<&'a mut Option<F>>,
    step: Step,
    output: Option<Box<F::Output>>,
    on_failure: Option<OnFailure<E, F::Output>>,
}

enum Step {
    Acquire(BoxFuture<'static, Result<LockGuard, LockError>>),
    Hold(LockGuard, LossSignal),
    Release(BoxFuture<'static, Result<(), LockError>>),
}

impl<'a, F: Future, E> Run<'a, F, E> {
    pub(crate) fn new(
        request: LockRequest,
        on_failure: OnFailure<E, F::Output>,
        body: Pin<&'a mut Option<F>>,
    ) -> Self {
        let step = Step::Acquire(Box::pin(request.acquire()));
        Self { body, step, output: None, on_failure: Some(on_failure) }
    }

    /// Polls until the lock is released or has failed.
    fn poll_steps(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        loop {
            match &mut self.step {
                Step::Acquire(acquire) => {
                    let guard = ready!(acquire.as_mut().poll(cx))?;
                    let loss = guard.loss_signal();
                    self.step = Step::Hold(guard, loss);
                }
                Step::Hold(guard, loss) => {
                    let Some(body) = self.body.as_mut().as_pin_mut() else { return Poll::Pending };
                    let output = ready!(guard.poll_held(loss, body, cx));
                    // What belongs to the body is dropped before the lock is released.
                    self.body.set(None);
                    self.output = Some(Box::new(output?));
                    self.step = Step::Release(guard.begin_release());
                }
                Step::Release(release) => return release.as_mut().poll(cx),
            }
        }
    }
}

impl<F: Future, E> Future for Run<'_, F, E> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(self.poll_steps(cx));
        let (output, on_failure) = (self.output.take(), self.on_failure.take());
        let Some(OnFailure { or_else, make, is_failure }) = on_failure else {
            return Poll::Pending;
        };
        Poll::Ready(match (ended, output) {
            // A release that failed goes on in the background, and takes nothing from the output.
            (Ok(()) | Err(LockError::Unavailable { .. }), Some(output)) => *output,
            (Err(_), Some(output)) if is_failure(&output) => *output,
            (Err(error), _) => make(or_else, error),
            (Ok(()), None) => return Poll::Pending,
        })
    }
}

/// Nothing in it is pinned in place; the body is pinned where it is borrowed from.
impl<F: Future, E> Unpin for Run<'_, F, E> {}

/// The body ends before the guard does, also when this is dropped midway: nothing of it runs when
/// the next holder may have begun.
impl<F: Future, E> Drop for Run<'_, F, E> {
    fn drop(&mut self) {
        self.body.set(None);
    }
}
