//! [`SingleFlight`]: one attempt for many callers.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Mutex;

/// Makes one attempt at a time. Callers that wait for their turn share the outcome of an attempt that
/// began after they came: they do not wait for one timeout after the other.
#[derive(Debug)]
pub(crate) struct SingleFlight<T> {
    /// How many attempts have begun.
    begun: AtomicU32,
    /// The number and the outcome of the last attempt. Locked while an attempt is in progress.
    last: Mutex<Option<(u32, T)>>,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { begun: AtomicU32::new(0), last: Mutex::default() }
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Returns what `current` finds once it is this caller's turn, or else the outcome of an attempt.
    pub(crate) async fn run<F: Future<Output = T>>(
        &self,
        current: impl Fn() -> Option<T>,
        attempt: impl FnOnce() -> F,
    ) -> T {
        let begun = self.begun.load(Ordering::Relaxed);
        let mut last = self.last.lock().await;
        if let Some(current) = current() {
            return current;
        }
        if let Some((number, outcome)) = &*last
            && *number > begun
        {
            return outcome.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let outcome = attempt().await;
        *last = Some((number, outcome.clone()));
        outcome
    }
}
