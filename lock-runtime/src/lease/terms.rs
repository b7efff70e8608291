//! [`Terms`]: the durations of a lease, their limits, and how long a lease is valid.

#![allow(unreachable_pub, clippy::must_use_candidate, reason = "public for the model only")]

use std::time::Duration;

/// Shortest ttl of a lease with renewal: below it, there is no room for two retries of a failed
/// renewal.
const MIN_TTL: Duration = Duration::from_millis(250);
/// Shortest ttl of a lease without renewal.
const MIN_TTL_UNRENEWED: Duration = Duration::from_millis(100);
/// Upper bound of all durations except `wait`.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a lease counts as held after its request was sent: the ttl, less the allowed clock
/// drift between client and server (1 %, and 2 ms for rounding), less the time it takes to stop the
/// holder.
pub fn validity(ttl: Duration) -> Duration {
    let clocks = ttl / 100 + Duration::from_millis(2);
    let stopping = (ttl / 20).max(Duration::from_millis(50));
    ttl.saturating_sub(clocks + stopping)
}

/// The requested properties of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How long the lease lives without renewal.
    pub ttl: Duration,
    /// Whether the lease is renewed.
    pub renew: bool,
    /// Upper bound of the whole hold.
    pub max_hold: Option<Duration>,
    /// How long the key stays taken at least; unused by the state machine.
    pub min_hold: Duration,
}

impl Terms {
    /// The first duration that is out of range or contradicts another one, if any.
    pub fn error(&self) -> Option<String> {
        let Self { ttl, renew, max_hold, min_hold } = *self;
        if renew && ttl < MIN_TTL {
            return Some(format!(
                "a ttl of {ttl:?} leaves no time for a renewal; \
                 the minimum is {MIN_TTL:?}, or {MIN_TTL_UNRENEWED:?} without renewal"
            ));
        }
        let error = match max_hold {
            _ if ttl < MIN_TTL_UNRENEWED => {
                format!("a ttl of {ttl:?} is too short; the minimum is {MIN_TTL_UNRENEWED:?}")
            }
            _ if ttl > MAX_DURATION => format!("a ttl of {ttl:?} is longer than 24 hours"),
            Some(Duration::ZERO) => "a `max_hold` of zero leaves no time to hold the lock".into(),
            Some(limit) if limit > MAX_DURATION => "`max_hold` is longer than 24 hours".into(),
            Some(limit) if limit < min_hold => "`min_hold` is longer than `max_hold`".into(),
            // A longer `min_hold` would end early if the holder crashed.
            _ if ttl < min_hold => "`min_hold` is longer than `ttl`".into(),
            _ => return None,
        };
        Some(error)
    }
}
