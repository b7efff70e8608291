//! [`LeaseState`]: the state machine of a lease, with its renewal schedule. Pure: `step(event, now)`,
//! without clock and I/O.
//!
//! All instants belong to one clock, which also counts while the machine is suspended. A lease
//! counts from the instant *before* the confirmed request was sent: the store cannot have started
//! counting earlier, so no other client can have been granted the lock before
//! [`deadline`](LeaseState::deadline).

#![allow(unreachable_pub, clippy::must_use_candidate, reason = "public for the model only")]

use std::time::{Duration, Instant};

use super::terms::{Terms, validity};
use crate::error::LossCause;
use crate::sync::Jitter;

/// An event in the life of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The holder checks whether the lease is still held.
    Check,
    /// The time of [`LeaseState::next_tick`] has come.
    Tick,
    /// The store confirmed the renewal that was sent after this instant.
    Renewed {
        /// An instant before the renewal was sent.
        sent: Instant,
    },
    /// The store replied that the key does not hold our token.
    NotOurs,
    /// A renewal was not executed, or its outcome is unknown.
    RenewalFailed,
    /// The holder releases the lock.
    Release,
}

/// The reaction to an [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing to do.
    Nothing,
    /// Send a renewal.
    Renew,
    /// Stop the holder.
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
pub struct LeaseState {
    terms: Terms,
    phase: Phase,
    deadline: Instant,
    /// When the holder must stop because of `max_hold`.
    limit: Option<Instant>,
    /// When the next renewal is due.
    renew_at: Instant,
    /// Renewals whose replies are pending.
    in_flight: usize,
    jitter: Jitter,
}

impl LeaseState {
    /// A lease granted by a request that was sent after `sent`.
    pub fn granted(terms: Terms, sent: Instant, seed: u64) -> Self {
        let mut jitter = Jitter::new(seed);
        Self {
            terms,
            phase: Phase::Held,
            deadline: sent + validity(terms.ttl),
            limit: terms.max_hold.map(|limit| sent + limit),
            renew_at: renewal_due(&terms, sent, &mut jitter),
            in_flight: 0,
            jitter,
        }
    }

    /// The instant from which the holder must no longer act.
    pub fn deadline(&self) -> Instant {
        self.limit.map_or(self.deadline, |limit| limit.min(self.deadline))
    }

    /// Why the lease was lost, if it was.
    pub fn loss(&self) -> Option<LossCause> {
        match self.phase {
            Phase::Lost(cause) => Some(cause),
            Phase::Held | Phase::Released => None,
        }
    }

    /// Whether the holder has released the lock.
    pub fn is_released(&self) -> bool {
        self.phase == Phase::Released
    }

    /// How long the lease lasts without a further renewal.
    pub fn remaining(&self, now: Instant) -> Duration {
        match self.phase {
            Phase::Held => self.deadline().saturating_duration_since(now),
            Phase::Lost(_) | Phase::Released => Duration::ZERO,
        }
    }

    /// Whether a renewal is in flight, which a release must not overtake.
    pub fn renewal_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// How long a renewal may stay without a reply before another is sent in parallel.
    pub fn patience(&self) -> Duration {
        validity(self.terms.ttl) / 12
    }

    /// When to call [`step`](Self::step) with [`Event::Tick`]; `None` once the lease has ended.
    pub fn next_tick(&self) -> Option<Instant> {
        match self.phase {
            Phase::Held if self.terms.renew => Some(self.deadline().min(self.renew_at)),
            Phase::Held => Some(self.deadline()),
            Phase::Lost(_) | Phase::Released => None,
        }
    }

    /// Applies an event and returns the reaction to it.
    pub fn step(&mut self, event: Event, now: Instant) -> Action {
        if matches!(event, Event::Renewed { .. } | Event::NotOurs | Event::RenewalFailed) {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        if self.phase != Phase::Held {
            return Action::Nothing;
        }
        // Before anything else: a confirmation after the deadline does not revive the lease,
        // because the holder has already been stopped.
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
                    self.renew_at = renewal_due(&self.terms, sent, &mut self.jitter);
                }
                Action::Nothing
            }
            Event::NotOurs => self.lose(LossCause::Taken),
            Event::RenewalFailed => {
                let delay = validity(self.terms.ttl) / 50;
                self.renew_at = self.renew_at.min(now + delay + self.jitter.up_to(delay));
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

/// Returns when a lease that counts from `sent` is due for renewal: after 63 to 70 % of its
/// validity, at random, so that leases taken together are not renewed together for ever.
fn renewal_due(terms: &Terms, sent: Instant, jitter: &mut Jitter) -> Instant {
    let validity = validity(terms.ttl);
    sent + validity * 63 / 100 + jitter.up_to(validity * 7 / 100)
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
    fn counts_from_the_request_with_a_margin() {
        let (lease, sent) = lease(terms(MS * 30_000));
        assert_eq!(lease.deadline() - sent, MS * (30_000 - 300 - 2 - 1_500));
        assert_eq!(validity(MS * 250), Duration::from_micros(250_000 - 2_500 - 52_000));
    }

    #[test]
    fn every_valid_ttl_has_room_for_three_renewals() {
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
                let mut renewals = 0;
                while let Some(tick) = lease.next_tick().filter(|tick| *tick < deadline) {
                    assert_eq!(lease.step(Event::Tick, tick), Action::Renew);
                    renewals += 1;
                }
                assert!(renewals >= 3, "ttl {ttl}: {renewals} renewals");
                assert_eq!(lease.step(Event::Tick, deadline), Action::Stop(LossCause::Expired));
            }
        }
    }

    #[test]
    fn f103_renewals_of_equal_leases_are_spread() {
        let ticks = (1..200u64).map(|seed| {
            LeaseState::granted(terms(MS * 30_000), Instant::now(), seed << 32).next_tick().unwrap()
        });
        let (first, last) = (ticks.clone().min().unwrap(), ticks.max().unwrap());
        assert!(last - first > MS * 1_500, "{:?}", last - first);
    }

    #[test]
    fn only_confirmed_renewals_move_the_deadline() {
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
    fn reply_out_of_order_does_not_shorten_the_lease() {
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
    fn confirmation_after_the_deadline_is_a_loss() {
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
    fn foreign_token_is_a_loss_once() {
        let (mut lease, sent) = lease(terms(MS * 1_000));
        assert_eq!(lease.step(Event::NotOurs, sent + MS), Action::Stop(LossCause::Taken));
        assert_eq!(lease.step(Event::NotOurs, sent + MS), Action::Nothing);
        assert_eq!(lease.remaining(sent + MS), Duration::ZERO);
    }

    #[test]
    fn released_lease_is_never_lost() {
        let (mut lease, sent) = lease(terms(MS * 1_000));
        lease.step(Event::Tick, sent + MS * 700);
        assert!(lease.renewal_in_flight());
        assert_eq!(lease.step(Event::Release, sent + MS * 701), Action::Nothing);
        assert_eq!(lease.step(Event::NotOurs, sent + MS * 702), Action::Nothing);
        assert_eq!(lease.step(Event::Tick, sent + MS * 2_000), Action::Nothing);
        assert_eq!((lease.loss(), lease.next_tick()), (None, None));
    }

    #[test]
    fn release_after_the_deadline_finds_the_loss() {
        let (mut lease, _) = lease(terms(MS * 1_000));
        let deadline = lease.deadline();
        assert_eq!(lease.step(Event::Release, deadline), Action::Stop(LossCause::Expired));
    }

    #[test]
    fn max_hold_ends_a_renewed_lease() {
        let (mut lease, sent) = lease(Terms { max_hold: Some(MS * 1_500), ..terms(MS * 1_000) });
        let tick = lease.next_tick().unwrap();
        lease.step(Event::Tick, tick);
        lease.step(Event::Renewed { sent: tick }, tick + MS);
        assert_eq!(lease.deadline(), sent + MS * 1_500);
        let end = lease.step(Event::Tick, sent + MS * 1_500);
        assert_eq!(end, Action::Stop(LossCause::MaxHold));
    }

    #[test]
    fn lease_without_renewal_ticks_at_its_end() {
        let (mut lease, _) = lease(Terms { renew: false, ..terms(MS * 200) });
        let end = lease.next_tick().unwrap();
        assert_eq!(end, lease.deadline());
        assert_eq!(lease.step(Event::Tick, end), Action::Stop(LossCause::Expired));
    }

    /// Compares random histories with the invariants of a lease.
    #[test]
    fn random_histories_keep_the_invariants() {
        let mut random = Jitter::new(42);
        for number in 1..=1_000_000 {
            let (mut lease, start) = lease(Terms {
                ttl: MS * 250 + random.up_to(MS * 5_000),
                renew: number % 4 != 0,
                max_hold: (number % 3 == 0).then(|| MS + random.up_to(MS * 9_000)),
                min_hold: Duration::ZERO,
            });
            let mut now = start;
            let mut ended = false;
            for _ in 0..20 {
                now += random.up_to(MS * 1_000);
                let before = lease.deadline();
                let event = match random.up_to(MS * 7).as_millis() {
                    0 => Event::Renewed { sent: start + random.up_to(now - start) },
                    1 => Event::RenewalFailed,
                    2 if random.up_to(MS * 5) > MS * 4 => Event::NotOurs,
                    3 if random.up_to(MS * 9) > MS * 8 => Event::Release,
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
