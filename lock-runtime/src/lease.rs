//! The state machine of a lease: pure, `step(event, now)`, no clock and no I/O.
//!
//! All instants are of one clock, which also counts while this machine is suspended. A lease counts from the instant *before* the
//! request that was confirmed was sent: the store cannot have started counting earlier, so nobody
//! else can have been granted the lock before [`deadline`](LeaseState::deadline).

use std::time::{Duration, Instant};

use crate::error::LossCause;

/// Shortest ttl of a lease that is renewed: below it, there is no room for two more attempts after
/// a renewal that failed.
pub(crate) const MIN_TTL: Duration = Duration::from_millis(250);
/// Shortest ttl of a lease that is not renewed.
pub(crate) const MIN_TTL_UNRENEWED: Duration = Duration::from_millis(100);
/// Longest of all durations but `wait`.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// How long after the request was sent its lease counts as held: the ttl, less what the clocks of
/// both sides may differ by in that time (1 %, and 2 ms for rounding), less what it takes to stop
/// the holder.
pub(crate) fn validity(ttl: Duration) -> Duration {
    let clocks = ttl / 100 + Duration::from_millis(2);
    let stopping = (ttl / 20).max(Duration::from_millis(50));
    ttl.saturating_sub(clocks + stopping)
}

/// What a lease was asked to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// For how long the key stays taken at least; the state machine has nothing to do with it.
    pub(crate) min_hold: Duration,
}

/// What happens to a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The holder asks whether it still is one.
    Check,
    /// It is time for a look.
    Tick,
    /// The store confirmed the renewal that was sent after this instant.
    Renewed { sent: Instant },
    /// The store said that the key is not ours.
    NotOurs,
    /// A renewal was not executed, or nobody knows.
    RenewalFailed,
    /// The holder is done with it.
    Release,
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    /// Send a renewal.
    Renew,
    /// Tell the holder to stop.
    Stop(LossCause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Held,
    Lost(LossCause),
    Released,
}

/// One lease, from grant to end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LeaseState {
    terms: Terms,
    phase: Phase,
    deadline: Instant,
    /// When the holder has to stop for `max_hold`.
    limit: Option<Instant>,
    /// When the next renewal is sent.
    renew_at: Instant,
    /// Renewals that are on their way.
    in_flight: usize,
    jitter: Jitter,
}

impl LeaseState {
    /// A lease that was granted by a request sent after `sent`.
    pub(crate) fn granted(terms: Terms, sent: Instant, seed: u64) -> Self {
        let mut jitter = Jitter(seed | 1);
        Self {
            terms,
            phase: Phase::Held,
            deadline: sent + validity(terms.ttl),
            limit: terms.max_hold.map(|limit| sent + limit),
            renew_at: renewal(&terms, sent, &mut jitter),
            in_flight: 0,
            jitter,
        }
    }

    /// The instant from which the holder must not act any more.
    pub(crate) fn deadline(&self) -> Instant {
        self.limit.map_or(self.deadline, |limit| limit.min(self.deadline))
    }

    /// How the lease was lost, if it was.
    pub(crate) fn loss(&self) -> Option<LossCause> {
        match self.phase {
            Phase::Lost(cause) => Some(cause),
            Phase::Held | Phase::Released => None,
        }
    }

    /// Whether the holder has given it back.
    pub(crate) fn is_released(&self) -> bool {
        self.phase == Phase::Released
    }

    /// How long the lease lasts without a further renewal.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        match self.phase {
            Phase::Held => self.deadline().saturating_duration_since(now),
            Phase::Lost(_) | Phase::Released => Duration::ZERO,
        }
    }

    /// Whether a renewal is on its way, which a release must not overtake.
    pub(crate) fn renewal_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// How long a renewal may go unanswered before the next one is sent beside it.
    pub(crate) fn patience(&self) -> Duration {
        validity(self.terms.ttl) / 12
    }

    /// When to call [`step`](Self::step) with [`Event::Tick`]; never again for a lease that ended.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        match self.phase {
            Phase::Held if self.terms.renew => Some(self.deadline().min(self.renew_at)),
            Phase::Held => Some(self.deadline()),
            Phase::Lost(_) | Phase::Released => None,
        }
    }

    /// Takes note of an event, and says what is to be done.
    pub(crate) fn step(&mut self, event: Event, now: Instant) -> Action {
        if matches!(event, Event::Renewed { .. } | Event::NotOurs | Event::RenewalFailed) {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        if self.phase != Phase::Held {
            return Action::Nothing;
        }
        // Before anything else: a confirmation that comes after the deadline does not bring the
        // lease back, because the holder has been told to stop.
        if now >= self.deadline() {
            let limit_reached = self.limit.is_some_and(|limit| limit <= self.deadline);
            return self.lose(if limit_reached { LossCause::MaxHold } else { LossCause::Expired });
        }
        match event {
            Event::Tick if self.terms.renew && now >= self.renew_at => {
                self.in_flight += 1;
                self.renew_at = now + self.patience();
                Action::Renew
            }
            Event::Check | Event::Tick => Action::Nothing,
            Event::Renewed { sent } => {
                let deadline = sent + validity(self.terms.ttl);
                if deadline > self.deadline {
                    self.deadline = deadline;
                    self.renew_at = renewal(&self.terms, sent, &mut self.jitter);
                }
                Action::Nothing
            }
            Event::NotOurs => self.lose(LossCause::Taken),
            Event::RenewalFailed => {
                let pause = validity(self.terms.ttl) / 50;
                self.renew_at = self.renew_at.min(now + pause + self.jitter.below(pause));
                Action::Nothing
            }
            Event::Release => {
                self.phase = Phase::Released;
                Action::Nothing
            }
        }
    }

    fn lose(&mut self, cause: LossCause) -> Action {
        self.phase = Phase::Lost(cause);
        Action::Stop(cause)
    }
}

/// When a lease that was confirmed at `sent` is renewed: as its last 30 % begin, or up to a tenth
/// of that time earlier, so that many leases taken at once do not renew at once for ever.
fn renewal(terms: &Terms, sent: Instant, jitter: &mut Jitter) -> Instant {
    let validity = validity(terms.ttl);
    sent + validity * 63 / 100 + jitter.below(validity * 7 / 100)
}

/// Random enough to spread renewals, and the same for the same seed (xorshift64).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Jitter(u64);

impl Jitter {
    fn below(&mut self, limit: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let [high, low, ..] = self.0.to_be_bytes();
        limit * u32::from(u16::from_be_bytes([high, low])) / u32::from(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn terms(ttl: Duration) -> Terms {
        Terms { ttl, renew: true, max_hold: None, min_hold: Duration::ZERO }
    }

    fn lease(terms: Terms) -> (LeaseState, Instant) {
        let sent = Instant::now();
        (LeaseState::granted(terms, sent, 7), sent)
    }

    #[test]
    fn counts_from_the_request_and_leaves_a_margin() {
        let (lease, sent) = lease(terms(MS * 30_000));
        assert_eq!(lease.deadline() - sent, MS * (30_000 - 300 - 2 - 1_500));
        assert_eq!(validity(MS * 250), Duration::from_micros(250_000 - 2_500 - 52_000));
    }

    #[test]
    fn c037_every_accepted_ttl_has_room_for_three_attempts() {
        for ttl in (250..2_000).chain((2_000..86_400_000).step_by(61_000)) {
            for seed in 1..20 {
                let terms = terms(MS * ttl);
                let sent = Instant::now();
                let mut lease = LeaseState::granted(terms, sent, seed);
                let deadline = lease.deadline();
                let validity = deadline - sent;
                let first = lease.next_tick().unwrap();
                assert!(deadline - first >= validity * 3 / 10, "ttl {ttl}: too late");
                assert!(deadline - first <= validity * 4 / 10, "ttl {ttl}: too early");
                let mut attempts = 0;
                while let Some(tick) = lease.next_tick().filter(|tick| *tick < deadline) {
                    assert_eq!(lease.step(Event::Tick, tick), Action::Renew);
                    attempts += 1;
                }
                assert!(attempts >= 3, "ttl {ttl}: {attempts} attempts");
                assert_eq!(lease.step(Event::Tick, deadline), Action::Stop(LossCause::Expired));
            }
        }
    }

    #[test]
    fn f103_renewals_of_equal_leases_spread() {
        let ticks = (1..200u64).map(|seed| {
            LeaseState::granted(terms(MS * 30_000), Instant::now(), seed << 32).next_tick().unwrap()
        });
        let (first, last) = (ticks.clone().min().unwrap(), ticks.max().unwrap());
        assert!(last - first > MS * 1_500, "{:?}", last - first);
    }

    #[test]
    fn only_a_confirmed_renewal_moves_the_deadline() {
        let (mut lease, sent) = lease(terms(MS * 1_000));
        let first = lease.deadline();
        let tick = lease.next_tick().unwrap();
        assert_eq!(lease.step(Event::Tick, tick), Action::Renew);
        assert_eq!(lease.step(Event::RenewalFailed, tick + MS * 2), Action::Nothing);
        assert_eq!(lease.deadline(), first);
        assert!(lease.next_tick().unwrap() > tick + MS * 2);

        let again = lease.next_tick().unwrap();
        assert_eq!(lease.step(Event::Tick, again), Action::Renew);
        assert_eq!(lease.step(Event::Renewed { sent: again }, again + MS * 3), Action::Nothing);
        assert_eq!(lease.deadline(), first + (again - sent));
    }

    #[test]
    fn an_answer_that_comes_out_of_order_does_not_shorten_the_lease() {
        let (mut lease, sent) = lease(terms(MS * 1_000));
        let (one, two) = (sent + MS * 700, sent + MS * 760);
        lease.step(Event::Tick, one);
        lease.step(Event::Tick, two);
        lease.step(Event::Renewed { sent: two }, two + MS);
        let deadline = lease.deadline();
        lease.step(Event::Renewed { sent: one }, two + MS * 2);
        assert_eq!(lease.deadline(), deadline);
        assert!(!lease.renewal_in_flight());
    }

    #[test]
    fn a_confirmation_after_the_deadline_is_a_loss() {
        let (mut lease, _) = lease(terms(MS * 1_000));
        let tick = lease.next_tick().unwrap();
        lease.step(Event::Tick, tick);
        let deadline = lease.deadline();
        let late = lease.step(Event::Renewed { sent: tick }, deadline);
        assert_eq!(late, Action::Stop(LossCause::Expired));
        assert_eq!(lease.loss(), Some(LossCause::Expired));
        assert_eq!(lease.next_tick(), None);
    }

    #[test]
    fn not_ours_is_a_loss_at_once_and_only_once() {
        let (mut lease, sent) = lease(terms(MS * 1_000));
        assert_eq!(lease.step(Event::NotOurs, sent + MS), Action::Stop(LossCause::Taken));
        assert_eq!(lease.step(Event::NotOurs, sent + MS), Action::Nothing);
        assert_eq!(lease.remaining(sent + MS), Duration::ZERO);
    }

    #[test]
    fn nothing_is_lost_after_the_release() {
        let (mut lease, sent) = lease(terms(MS * 1_000));
        lease.step(Event::Tick, sent + MS * 700);
        assert!(lease.renewal_in_flight());
        assert_eq!(lease.step(Event::Release, sent + MS * 701), Action::Nothing);
        assert_eq!(lease.step(Event::NotOurs, sent + MS * 702), Action::Nothing);
        assert_eq!(lease.step(Event::Tick, sent + MS * 2_000), Action::Nothing);
        assert_eq!((lease.loss(), lease.next_tick()), (None, None));
    }

    #[test]
    fn a_release_after_the_deadline_finds_the_loss() {
        let (mut lease, _) = lease(terms(MS * 1_000));
        let deadline = lease.deadline();
        assert_eq!(lease.step(Event::Release, deadline), Action::Stop(LossCause::Expired));
    }

    #[test]
    fn c072_max_hold_ends_a_lease_that_is_renewed() {
        let (mut lease, sent) = lease(Terms { max_hold: Some(MS * 1_500), ..terms(MS * 1_000) });
        let tick = lease.next_tick().unwrap();
        lease.step(Event::Tick, tick);
        lease.step(Event::Renewed { sent: tick }, tick + MS);
        assert_eq!(lease.deadline(), sent + MS * 1_500);
        let end = lease.step(Event::Tick, sent + MS * 1_500);
        assert_eq!(end, Action::Stop(LossCause::MaxHold));
    }

    #[test]
    fn a_lease_that_is_not_renewed_is_looked_at_when_it_ends() {
        let (mut lease, _) = lease(Terms { renew: false, ..terms(MS * 200) });
        let end = lease.next_tick().unwrap();
        assert_eq!(end, lease.deadline());
        assert_eq!(lease.step(Event::Tick, end), Action::Stop(LossCause::Expired));
    }

    /// Random histories against what must always hold.
    #[test]
    fn random_histories_keep_the_promises() {
        let mut random = Jitter(42);
        for round in 1..=1_000_000 {
            let (mut lease, start) = lease(Terms {
                ttl: MS * 250 + random.below(MS * 5_000),
                renew: round % 4 != 0,
                max_hold: (round % 3 == 0).then(|| MS + random.below(MS * 9_000)),
                min_hold: Duration::ZERO,
            });
            let mut now = start;
            let mut ended = false;
            for _ in 0..20 {
                now += random.below(MS * 1_000);
                let before = lease.deadline();
                let event = match random.below(MS * 7).as_millis() {
                    0 => Event::Renewed { sent: start + random.below(now - start) },
                    1 => Event::RenewalFailed,
                    2 if random.below(MS * 5) > MS * 4 => Event::NotOurs,
                    3 if random.below(MS * 9) > MS * 8 => Event::Release,
                    4 => Event::Check,
                    _ => Event::Tick,
                };
                let action = lease.step(event, now);
                if ended {
                    assert_eq!(action, Action::Nothing, "{event:?} after the end");
                    continue;
                }
                assert!(lease.deadline() >= before, "a lease never gets shorter");
                match action {
                    Action::Stop(_) => ended = true,
                    _ => assert!(now < before, "{event:?} at the deadline is a loss"),
                }
                ended |= event == Event::Release;
                assert_eq!(ended, lease.next_tick().is_none());
                if let Event::Renewed { sent } = event {
                    assert!(lease.deadline() <= before.max(sent + validity(lease.terms.ttl)));
                }
            }
        }
    }
}
