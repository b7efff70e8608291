//! Limits and durations.

use std::time::Duration;

/// The limit for what should happen soon, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// The limit for what should happen at once, on a busy machine.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(1);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap()
}
