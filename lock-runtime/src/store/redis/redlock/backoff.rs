//! The backoff after a lost round.

use std::time::Duration;

use crate::sync::Jitter;

/// The upper bound of the first delay.
const FIRST: Duration = Duration::from_millis(50);
/// The upper bound of all delays.
const LONGEST: Duration = Duration::from_secs(1);
/// The upper bound of the delay after a notification. The other servers have released the lock
/// within the time of a message, and the waiters must not poll at the same instant.
const NOTIFIED: Duration = Duration::from_millis(5);

/// Returns the delay after the first lost round (0) or a later one: a random part of a limit that
/// doubles each time. The randomness lets one of several contenders with split votes get a
/// majority.
pub(super) fn after(round: u32, ttl: Duration, seed: u64) -> Duration {
    let longest = LONGEST.min(ttl / 3);
    let limit = 2_u32.checked_pow(round).map_or(longest, |factor| FIRST.saturating_mul(factor));
    Jitter::new(seed).up_to(limit.min(longest))
}

/// Returns the delay after a notification that the lock was released.
pub(super) fn after_notification(seed: u64) -> Duration {
    Jitter::new(seed.rotate_left(32)).up_to(NOTIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn delays_are_random_and_their_limits_grow() {
        let longest = |round, ttl| (0..10_000).map(|seed| after(round, ttl, seed)).max().unwrap();
        let about =
            |delay: Duration, limit: u32| delay <= MS * limit && delay > MS * limit * 9 / 10;
        for (round, limit) in [(0, 50), (1, 100), (2, 200), (4, 800), (5, 1_000), (99, 1_000)] {
            assert!(about(longest(round, MS * 30_000), limit), "{round}");
        }
        assert!(about(longest(99, MS * 600), 200));
        let sum: Duration = (0..10_000).map(|seed| after(0, MS * 600, seed)).sum();
        assert!(sum > MS * 240_000 && sum < MS * 260_000, "{sum:?}");
        assert!((0..10_000).all(|seed| after_notification(seed) <= NOTIFIED));
    }
}
