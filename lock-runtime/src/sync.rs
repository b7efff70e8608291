//! Tools for tasks and threads: mutexes that survive a panic, and jitter.

#![allow(unreachable_pub, clippy::must_use_candidate, reason = "public for the model only")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The error message where Tokio's timers and sockets would panic.
pub(crate) const NO_RUNTIME: &str = "this needs a Tokio runtime, and none is running here";

/// Locks a mutex even if another thread panicked while it held it. Every critical section of this
/// crate leaves its value usable at any point: each change is one assignment or one insertion.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reproducible sequence of random parts of durations (xorshift64). Spreads requests over time;
/// not for secrets. A seed of zero yields no jitter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Jitter(u64);

impl Jitter {
    /// A sequence that depends on the seed only.
    pub fn new(seed: u64) -> Self {
        // Mixed, because seeds that differ in a few bits would yield similar first parts.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A random part of `limit`.
    pub(crate) fn up_to(&mut self, limit: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let [high, low, ..] = self.0.to_be_bytes();
        limit.saturating_mul(u32::from(u16::from_be_bytes([high, low]))) / u32::from(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_evenly_distributed_parts() {
        let limit = Duration::from_millis(100);
        let parts: Vec<_> = (1..=10_000).map(|seed| Jitter::new(seed).up_to(limit)).collect();
        assert!(parts.iter().all(|part| *part <= limit));
        assert!(parts.iter().max() > Some(&(limit * 99 / 100)));
        let mean = parts.iter().sum::<Duration>() / 10_000;
        assert!(mean > limit * 48 / 100 && mean < limit * 52 / 100, "{mean:?}");
    }

    #[test]
    fn draws_nothing_from_seed_zero() {
        assert_eq!(Jitter::new(0).up_to(Duration::from_secs(1)), Duration::ZERO);
    }
}
