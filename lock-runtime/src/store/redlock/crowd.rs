//! Futures that run side by side, such as one question to all servers.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Futures that are polled together by whoever awaits the next result.
pub(super) struct Crowd<T>(Vec<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> Default for Crowd<T> {
    fn default() -> Self {
        Self(Vec::new())
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
        self.0.push(Box::pin(future));
    }

    /// The next result, in the order in which they come; none when there are no more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| {
            if self.0.is_empty() {
                return Poll::Ready(None);
            }
            for index in 0..self.0.len() {
                if let Poll::Ready(result) = self.0[index].as_mut().poll(cx) {
                    drop(self.0.swap_remove(index));
                    return Poll::Ready(Some(result));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Lets those that are left run on in the background.
    pub(super) fn finish(mut self) {
        if !self.0.is_empty() {
            tokio::spawn(async move { while self.next().await.is_some() {} });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
