//! [`FanOut`]: requests to several servers at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Futures that are polled together by the task that awaits the next result.
pub(crate) struct FanOut<T> {
    running: Vec<Pin<Box<dyn Future<Output = T> + Send>>>,
    done: Vec<T>,
}

impl<T> Default for FanOut<T> {
    fn default() -> Self {
        Self { running: Vec::new(), done: Vec::new() }
    }
}

impl<T: Send + 'static> FanOut<T> {
    pub(crate) fn new(
        futures: impl IntoIterator<Item: Future<Output = T> + Send + 'static>,
    ) -> Self {
        let mut all = Self::default();
        futures.into_iter().for_each(|future| all.add(future));
        all
    }

    pub(crate) fn add(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.running.push(Box::pin(future));
    }

    /// Returns the next result, or `None` if there are no more. Polls all futures first, so that
    /// all requests are sent before the first result is processed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| {
            let done = &mut self.done;
            self.running.retain_mut(|future| match future.as_mut().poll(cx) {
                Poll::Ready(result) => {
                    done.push(result);
                    false
                }
                Poll::Pending => true,
            });
            match done.pop() {
                Some(result) => Poll::Ready(Some(result)),
                None if self.running.is_empty() => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Awaits all results and discards them.
    pub(crate) async fn join(mut self) {
        while self.next().await.is_some() {}
    }

    /// Lets the remaining futures finish in the background.
    pub(crate) fn detach(self) {
        if !self.running.is_empty() {
            tokio::spawn(self.join());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.done.is_empty()
    }
}

/// Sends all requests, and returns the replies and the errors as soon as there are `enough` replies
/// or every request is done.
pub(crate) async fn collect<T: Send + 'static, E: Send + 'static>(
    requests: impl IntoIterator<Item: Future<Output = Result<T, E>> + Send + 'static>,
    enough: usize,
) -> (Vec<T>, Vec<E>) {
    let mut all = FanOut::new(requests);
    let (mut replies, mut errors) = (Vec::new(), Vec::new());
    while replies.len() < enough
        && let Some(result) = all.next().await
    {
        match result {
            Ok(reply) => replies.push(reply),
            Err(error) => errors.push(error),
        }
    }
    (replies, errors)
}
