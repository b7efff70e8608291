//! Futures that run side by side, such as one question to all servers.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Futures that are polled together by whoever awaits the next result.
pub(super) struct Crowd<T> {
    running: Vec<Pin<Box<dyn Future<Output = T> + Send>>>,
    done: Vec<T>,
}

impl<T> Default for Crowd<T> {
    fn default() -> Self {
        Self { running: Vec::new(), done: Vec::new() }
    }
}

impl<T: Send + 'static> Crowd<T> {
    pub(super) fn new(
        futures: impl IntoIterator<Item: Future<Output = T> + Send + 'static>,
    ) -> Self {
        let mut crowd = Self::default();
        futures.into_iter().for_each(|future| crowd.add(future));
        crowd
    }

    pub(super) fn add(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.running.push(Box::pin(future));
    }

    /// A result; none when there are no more. All futures are polled before that, so what they send at once
    /// is sent then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Option<T> {
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

    /// Lets those that are left run on in the background.
    pub(super) fn finish(mut self) {
        if !self.running.is_empty() {
            tokio::spawn(async move { while self.next().await.is_some() {} });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.done.is_empty()
    }
}
