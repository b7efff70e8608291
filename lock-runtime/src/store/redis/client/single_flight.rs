//! [`SingleFlight`]: one run of an operation for many callers.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Mutex;

/// Makes one attempt at a time. Callers that wait for their turn share the failure of an attempt that
/// ended in the meantime: they do not wait for one timeout after the other.
#[derive(Debug)]
pub(crate) struct SingleFlight<E> {
    /// How many attempts have failed.
    failures: AtomicU32,
    /// The last failure. Locked while an attempt is in progress.
    last: Mutex<Option<E>>,
}

impl<E> Default for SingleFlight<E> {
    fn default() -> Self {
        Self { failures: AtomicU32::new(0), last: Mutex::default() }
    }
}

impl<E: Clone> SingleFlight<E> {
    /// Returns what `current` finds once it is this caller's turn, or else the outcome of an attempt.
    pub(crate) async fn run<T, F: Future<Output = Result<T, E>>>(
        &self,
        current: impl Fn() -> Option<T>,
        attempt: impl FnOnce() -> F,
    ) -> Result<T, E> {
        let failures = self.failures.load(Ordering::Relaxed);
        let mut last = self.last.lock().await;
        if let Some(current) = current() {
            return Ok(current);
        }
        if let Some(error) = &*last
            && self.failures.load(Ordering::Relaxed) != failures
        {
            return Err(error.clone());
        }
        let outcome = attempt().await;
        if let Err(error) = &outcome {
            self.failures.fetch_add(1, Ordering::Relaxed);
            *last = Some(error.clone());
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::task::yield_now;

    use super::*;

    /// Three callers at once, whose attempts end with `outcome`. Returns how many attempts were made.
    async fn attempts(outcome: Result<(), &'static str>) -> u32 {
        let (flight, attempts) = (SingleFlight::default(), Cell::new(0));
        let call = || {
            flight.run(
                || None,
                async || {
                    attempts.set(attempts.get() + 1);
                    yield_now().await;
                    outcome
                },
            )
        };
        let outcomes = tokio::join!(call(), call(), call());
        assert_eq!(outcomes, (outcome, outcome, outcome));
        attempts.get()
    }

    #[tokio::test]
    async fn shares_failures_only() {
        assert_eq!(attempts(Err("down")).await, 1);
        assert_eq!(attempts(Ok(())).await, 3);
    }
}
