//! A list that a thread writes and a test can wait on.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The reading end, with all items written so far.
#[derive(Debug)]
pub(crate) struct Journal<T>(watch::Receiver<Vec<T>>);

/// The writing end; dropping it ends the journal.
#[derive(Debug)]
pub(crate) struct Writer<T>(watch::Sender<Vec<T>>);

impl<T> Writer<T> {
    pub(crate) fn push(&self, item: T) {
        self.0.send_modify(|items| items.push(item));
    }
}

impl<T: Clone> Journal<T> {
    pub(crate) fn new() -> (Writer<T>, Self) {
        let (writer, reader) = watch::channel(Vec::new());
        (Writer(writer), Self(reader))
    }

    pub(crate) fn items(&self) -> Vec<T> {
        self.0.borrow().clone()
    }

    /// Waits for the first item that `matches`, written before or after this call.
    ///
    /// `None` if the journal ends or `limit` passes without one.
    pub(crate) async fn first(&self, limit: Duration, matches: impl Fn(&T) -> bool) -> Option<T> {
        let mut reader = self.0.clone();
        let mut seen = 0;
        let written = async {
            loop {
                // Copied out of the lock, so that `matches` may read the journal itself.
                let new = reader.borrow_and_update()[seen..].to_vec();
                seen += new.len();
                if let Some(item) = new.into_iter().find(|item| matches(item)) {
                    return Some(item);
                }
                reader.changed().await.ok()?;
            }
        };
        timeout(limit, written).await.ok().flatten()
    }
}
