//! [`SingleFlight`]: one run of an operation for many callers.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Mutex;

/// Runs an operation once at a time. Callers that wait for their turn share the outcome of a run
/// that began after their call, so they do not wait for one timeout after the other.
#[derive(Debug)]
pub(crate) struct SingleFlight<T> {
    /// How many runs have begun.
    begun: AtomicU32,
    /// The number and the outcome of the last run. Locked during a run.
    last: Mutex<Option<(u32, T)>>,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { begun: AtomicU32::new(0), last: Mutex::default() }
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Returns what `current` finds once it is this caller's turn, or else the outcome of a run.
    pub(crate) async fn run<F: Future<Output = T>>(
        &self,
        current: impl Fn() -> Option<T>,
        operation: impl FnOnce() -> F,
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
        let outcome = operation().await;
        *last = Some((number, outcome.clone()));
        outcome
    }
}
