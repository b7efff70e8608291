//! How long to pause after a round that was lost.

use std::time::Duration;

/// The first pause, at most.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause, at most.
const LONGEST: Duration = Duration::from_secs(1);
/// How long to wait at most when the lock was given back. The other servers know that within the time
/// of a message, and not all who wait shall ask at the same instant.
const FREED: Duration = Duration::from_millis(5);

/// The pause after the first lost round (0) or a later one: a random part of a limit that doubles each
/// time. That is what lets one of many who split the votes get a majority.
pub(super) fn after(round: u32, ttl: Duration, seed: u64) -> Duration {
    let longest = LONGEST.min(ttl / 3);
    let limit = 2_u32.checked_pow(round).map_or(longest, |factor| FIRST.saturating_mul(factor));
    part(limit.min(longest), seed)
}

/// The pause after the news that the lock is free.
pub(super) fn when_freed(seed: u64) -> Duration {
    part(FREED, seed.rotate_left(32))
}

/// Some part of a duration, as random as the seed.
fn part(whole: Duration, seed: u64) -> Duration {
    let [high, low, ..] = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    whole * u32::from(u16::from_be_bytes([high, low])) / u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_are_random_and_their_limits_grow() {
        let longest = |round, ttl| (0..10_000).map(|seed| after(round, ttl, seed)).max().unwrap();
        let about =
            |pause: Duration, limit: u32| pause <= MS * limit && pause > MS * limit * 9 / 10;
        for (round, limit) in [(0, 50), (1, 100), (2, 200), (4, 800), (5, 1_000), (99, 1_000)] {
            assert!(about(longest(round, MS * 30_000), limit), "{round}");
        }
        assert!(about(longest(99, MS * 600), 200));
        let sum: Duration = (0..10_000).map(|seed| after(0, MS * 600, seed)).sum();
        assert!(sum > MS * 240_000 && sum < MS * 260_000, "{sum:?}");
        assert!((0..10_000).all(|seed| when_freed(seed) <= FREED));
    }
}
