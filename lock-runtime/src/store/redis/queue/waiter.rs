//! [`Waiter`]: the state machine of a waiter, which decides when it polls, and which message means
//! that it holds the lock. Pure, so that it can be tested and model-checked as it is.

#![allow(unreachable_pub, clippy::must_use_candidate, reason = "public for the model only")]

use std::time::{Duration, Instant};

use crate::fence::Fence;
use crate::store::redis::reply::Queued;
use crate::sync::Jitter;

/// A grant whose request is older than this part of the ttl is confirmed by another poll before the
/// lease begins, because the lease counts from the request.
const FRESH: u32 = 10;
/// How early the lock may be announced as free, because times are rounded to milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// An event for a waiter between its polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The lock was handed over.
    Held(Fence),
    /// The lock will be free in this time.
    Free(Duration),
    /// The connection is unusable, and messages may be missing.
    Disconnected,
}

/// A waiter, from its first request to the grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiter {
    ttl: Duration,
    wait_until: Option<Instant>,
    /// Whether a message is proof of a grant; otherwise the waiter polls, and the reply is.
    trusts_messages: bool,
    poll_at: Instant,
    /// When the last request with a reply was sent, and the last fence at that time.
    queued: Option<(Instant, Fence)>,
    /// Extends each poll interval by up to a quarter.
    jitter: Jitter,
}

impl Waiter {
    /// A waiter that is about to send its first request.
    pub fn new(
        ttl: Duration,
        wait_until: Option<Instant>,
        trusts_messages: bool,
        now: Instant,
        jitter: Jitter,
    ) -> Self {
        Self { ttl, wait_until, trusts_messages, poll_at: now, queued: None, jitter }
    }

    /// The poll interval at the head of the queue, in case messages are lost. The server extends it
    /// for waiters behind.
    pub fn poll_interval(&self) -> Duration {
        Duration::from_secs(1).min(self.ttl / 3)
    }

    /// Whether a request at `now` may join the queue; otherwise it is the last one.
    pub fn may_queue(&self, now: Instant) -> bool {
        self.wait_until.is_none_or(|until| now < until)
    }

    /// When to poll next.
    pub fn poll_at(&self) -> Instant {
        self.wait_until.map_or(self.poll_at, |until| until.min(self.poll_at))
    }

    /// Applies the reply to the request that was sent after `sent`.
    pub fn queued(&mut self, sent: Instant, reply: Queued, now: Instant) {
        self.queued = Some((sent, reply.last_fence));
        let poll_in = reply.poll_in + self.jitter.up_to(reply.poll_in / 4);
        let free_in = reply.free_in.map(|free_in| free_in + ROUNDING);
        self.poll_at = now + free_in.map_or(poll_in, |free_in| free_in.min(poll_in));
    }

    /// Applies a message. If it proves a grant, returns the instant from which the lease counts,
    /// and its fence.
    ///
    /// The lock was handed over after the last request was executed, hence also after it was sent.
    /// A message about an earlier grant, which the token has lost since, carries a fence that was
    /// no longer new when the request was executed.
    pub fn receive(&mut self, message: Message, now: Instant) -> Option<(Instant, Fence)> {
        match (message, self.queued) {
            (Message::Held(fence), Some((sent, last))) if fence > last => {
                let is_fresh = now.saturating_duration_since(sent) < self.ttl / FRESH;
                if self.trusts_messages && is_fresh {
                    return Some((sent, fence));
                }
                self.poll_at = now;
            }
            (Message::Held(_), _) => {}
            (Message::Free(within), _) => self.poll_at = self.poll_at.min(now + within + ROUNDING),
            (Message::Disconnected, _) => self.poll_at = now,
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn waiter(ttl: u32, wait: Option<Duration>, seed: u64) -> (Waiter, Instant) {
        let (now, jitter) = (Instant::now(), Jitter::new(seed));
        (Waiter::new(MS * ttl, wait.map(|wait| now + wait), true, now, jitter), now)
    }

    fn reply(poll_in: u32, free_in: Option<u32>, last_fence: u64) -> Queued {
        let free_in = free_in.map(|ms| MS * ms);
        Queued { poll_in: MS * poll_in, free_in, last_fence: Fence::new(last_fence) }
    }

    fn held(fence: u64) -> Message {
        Message::Held(Fence::new(fence))
    }

    #[test]
    fn polls_at_once_and_then_after_the_interval_with_jitter() {
        let interval = |seed| {
            let (mut waiter, start) = waiter(3_000, None, seed);
            assert_eq!(waiter.poll_at(), start);
            waiter.queued(start, reply(400, None, 1), start + MS * 7);
            waiter.poll_at() - (start + MS * 7)
        };
        assert_eq!(interval(0), MS * 400);
        let intervals: Vec<_> = (1..1_000).map(interval).collect();
        assert!(intervals.iter().all(|interval| (MS * 400..=MS * 500).contains(interval)));
        assert!(intervals.iter().any(|interval| *interval > MS * 495), "a quarter at most");
    }

    #[test]
    fn polls_each_third_of_the_ttl_up_to_a_second() {
        assert_eq!(waiter(600, None, 0).0.poll_interval(), MS * 200);
        assert_eq!(waiter(30_000, None, 0).0.poll_interval(), MS * 1_000);
    }

    #[test]
    fn polls_when_the_lock_is_free_at_the_latest() {
        let (mut waiter, start) = waiter(3_000, None, 7);
        waiter.queued(start, reply(1_000, Some(20), 1), start);
        assert_eq!(waiter.poll_at(), start + MS * 21);
        waiter.receive(Message::Free(MS * 5), start + MS * 10);
        assert_eq!(waiter.poll_at(), start + MS * 16);
        waiter.receive(Message::Free(MS * 500), start + MS * 10);
        assert_eq!(waiter.poll_at(), start + MS * 16, "a later time does not postpone the poll");
    }

    #[test]
    fn polls_at_once_after_a_disconnection() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        waiter.queued(start, reply(1_000, None, 1), start);
        assert_eq!(waiter.receive(Message::Disconnected, start + MS), None);
        assert_eq!(waiter.poll_at(), start + MS);
    }

    #[test]
    fn polls_once_more_when_the_wait_is_over() {
        let (mut waiter, start) = waiter(3_000, Some(MS * 50), 0);
        waiter.queued(start, reply(1_000, None, 1), start);
        assert_eq!(waiter.poll_at(), start + MS * 50);
        assert!(waiter.may_queue(start + MS * 49));
        assert!(!waiter.may_queue(start + MS * 50));
        assert!(!self::waiter(3_000, Some(Duration::ZERO), 0).0.may_queue(Instant::now()));
    }

    #[test]
    fn handed_over_lease_counts_from_the_request() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        waiter.queued(start, reply(1_000, None, 7), start + MS);
        assert_eq!(waiter.receive(held(8), start + MS * 299), Some((start, Fence::new(8))));
    }

    #[test]
    fn old_request_is_confirmed_by_a_poll() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        waiter.queued(start, reply(1_000, None, 7), start + MS);
        assert_eq!(waiter.receive(held(8), start + MS * 300), None);
        assert_eq!(waiter.poll_at(), start + MS * 300);
    }

    #[test]
    fn waiter_without_trust_polls_after_a_message() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        waiter.trusts_messages = false;
        waiter.queued(start, reply(1_000, None, 7), start + MS);
        assert_eq!(waiter.receive(held(8), start + MS * 2), None);
        assert_eq!(waiter.poll_at(), start + MS * 2);
    }

    #[test]
    fn outdated_message_changes_nothing() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        assert_eq!(waiter.receive(held(8), start), None, "there was no reply yet");
        waiter.queued(start, reply(1_000, None, 8), start);
        let before = waiter.clone();
        for fence in [1, 8] {
            assert_eq!(waiter.receive(held(fence), start + MS), None);
        }
        assert_eq!(waiter, before);
    }

    /// Compares random histories with the invariants of a waiter.
    #[test]
    fn random_histories_keep_the_invariants() {
        let mut random = fastrand::Rng::with_seed(42);
        let mut below = |limit: u64| random.u64(..limit);
        for _ in 0..1_000_000 {
            let ttl = MS * 100 + MS * u32::try_from(below(5_000)).unwrap();
            let start = Instant::now();
            let until = (below(3) == 0).then(|| start + Duration::from_millis(below(3_000)));
            let jitter = Jitter::new(below(1 << 31));
            let mut waiter = Waiter::new(ttl, until, true, start, jitter);
            let (mut now, mut request) = (start, None);
            for _ in 0..12 {
                now += Duration::from_millis(below(400));
                let (before, delay) = (waiter.poll_at(), Duration::from_millis(1 + below(1_000)));
                match below(5) {
                    0 => {
                        let sent =
                            now.checked_sub(Duration::from_millis(below(100))).unwrap().max(start);
                        let last_fence = Fence::new(below(100));
                        let free_in = (below(2) == 0).then_some(delay / 2);
                        waiter.queued(sent, Queued { poll_in: delay, free_in, last_fence }, now);
                        request = Some((sent, last_fence));
                        assert!(waiter.poll_at() <= now + delay * 5 / 4, "polls too late");
                        assert!(
                            free_in.is_none_or(|free| waiter.poll_at() <= now + free + ROUNDING)
                        );
                    }
                    1 => assert_eq!(waiter.receive(Message::Disconnected, now), None),
                    2 => assert_eq!(waiter.receive(Message::Free(delay), now), None),
                    _ => {
                        let fence = Fence::new(below(100));
                        let granted = waiter.receive(Message::Held(fence), now);
                        let new = request.filter(|(_, last)| fence > *last).map(|(sent, _)| sent);
                        let fresh = new.filter(|sent| now - *sent < ttl / FRESH);
                        assert_eq!(granted, fresh.map(|sent| (sent, fence)));
                        let polls_now = until.map_or(now, |until| until.min(now));
                        match (new, granted) {
                            (Some(_), None) => assert_eq!(waiter.poll_at(), polls_now),
                            _ => assert_eq!(waiter.poll_at(), before),
                        }
                    }
                }
                assert!(until.is_none_or(|until| waiter.poll_at() <= until));
                assert!(until.is_some() || waiter.may_queue(now));
            }
        }
    }
}
