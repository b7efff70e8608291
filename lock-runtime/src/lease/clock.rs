//! The clock of leases. On Linux, `Instant` stands still while the machine is suspended, but the
//! server keeps counting. So does the clock of leases.

use std::time::Instant;

pub(crate) use self::system::now;

/// One instant on both clocks: the clock of leases, and the plain clock of `Instant`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    lease: Instant,
    plain: Instant,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { lease: now(), plain: Instant::now() }
    }

    /// Converts a later `Instant` to the clock of leases. If the machine was suspended in between,
    /// the result is too early, and a lease that counts from it ends too early, which is safe.
    pub(crate) fn convert(self, later: Instant) -> Instant {
        self.lease + later.saturating_duration_since(self.plain)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use rustix::time::{ClockId, clock_gettime};

    /// The current time, comparable with instants of this clock only.
    pub(crate) fn now() -> Instant {
        static START: LazyLock<(Instant, Duration)> = LazyLock::new(|| (Instant::now(), uptime()));
        let (start, before) = *START;
        start + uptime().saturating_sub(before)
    }

    /// The time since the machine started, including suspensions.
    fn uptime() -> Duration {
        clock_gettime(ClockId::Boottime).try_into().unwrap_or_default()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    use std::time::Instant;

    /// The current time.
    pub(crate) fn now() -> Instant {
        Instant::now()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::LossCause;
    use crate::lease::state::{Action, Event, LeaseState};
    use crate::lease::terms::Terms;

    const SECOND: Duration = Duration::from_secs(1);

    fn lease(sent: Instant) -> LeaseState {
        let terms =
            Terms { ttl: SECOND * 30, renew: true, max_hold: None, min_hold: Duration::ZERO };
        LeaseState::granted(terms, sent, 7)
    }

    #[test]
    fn f22_lease_ends_during_a_suspension() {
        let begun = Moment::now();
        let sent = begun.convert(begun.plain + SECOND);
        assert_eq!(sent, begun.lease + SECOND);
        let mut lease = lease(sent);
        // An hour later, of which `Instant` has counted two seconds.
        let now = begun.lease + SECOND * 3_600;
        assert_eq!(lease.remaining(now), Duration::ZERO);
        assert_eq!(lease.step(Event::Check, now), Action::Stop(LossCause::Expired));
    }

    #[test]
    fn f22_grant_does_not_outlive_a_suspension() {
        let begun = Moment { lease: Instant::now(), plain: Instant::now() };
        // The machine was suspended for an hour while the request was in flight.
        let sent = begun.convert(begun.plain);
        assert!(lease(sent).remaining(begun.lease + SECOND * 3_600).is_zero());
    }

    #[test]
    fn both_clocks_advance_alike_without_suspension() {
        let (begun, mut apart) = (Moment::now(), Duration::MAX);
        // The thread may have been preempted before the second reading.
        for _ in 0..1_000 {
            let later = Moment::now();
            apart = apart.min(begun.convert(later.plain).max(later.lease) - later.lease);
        }
        assert!(apart < SECOND / 100, "{apart:?}");
    }
}
