//! One request that waits in the queue: when it asks again, and which message means that it holds
//! the lock. Without input and output, so that it can be tested and model-checked as it is.

use std::time::{Duration, Instant};

use crate::Fence;

/// An answer or a message that is older than this part of the ttl is confirmed by one more question
/// before the lease begins, because the lease is counted from it.
const FRESH: u32 = 10;
/// What a message that the lock is free in some milliseconds may be early by.
const ROUNDING: Duration = Duration::from_millis(1);

/// The answer to a question that did not get the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Queued {
    /// The pause before the next question.
    pub(crate) pause: Duration,
    /// When the lock is free at the latest, if nobody renews it.
    pub(crate) free_in: Option<Duration>,
    /// No grant up to now has a greater fence, and every later one has.
    pub(crate) last_fence: Fence,
}

/// What the inbox of a waiter may receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// The lock was handed over.
    Held(Fence),
    /// The lock will be free in so long.
    Free(Duration),
    /// Messages may have been lost.
    Lost,
}

/// The waiter, from its first question to the grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    ttl: Duration,
    wait_until: Option<Instant>,
    /// Whether it holds a lock when it is told so; else it asks, and the answer counts.
    trusts_messages: bool,
    ask_at: Instant,
    /// When the last question was sent that was answered, and the last fence at that time.
    queued: Option<(Instant, Fence)>,
    /// How much of a quarter its pauses are longer than it was told, in parts of `u8::MAX`.
    jitter: u8,
}

impl Waiter {
    /// One that is about to ask for the first time.
    pub(crate) fn new(
        ttl: Duration,
        wait_until: Option<Instant>,
        trusts_messages: bool,
        now: Instant,
        jitter: u8,
    ) -> Self {
        Self { ttl, wait_until, trusts_messages, ask_at: now, queued: None, jitter }
    }

    /// How long it pauses when it is the first in the queue, before it asks to be on the safe side.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_secs(1).min(self.ttl / 3)
    }

    /// Whether a question at `now` is about a place in the queue; else it is the last one.
    pub(crate) fn waits(&self, now: Instant) -> bool {
        self.wait_until.is_none_or(|until| now < until)
    }

    /// When to ask next.
    pub(crate) fn ask_at(&self) -> Instant {
        self.wait_until.map_or(self.ask_at, |until| until.min(self.ask_at))
    }

    /// Takes note of the answer to the question that was sent after `sent`.
    pub(crate) fn queued(&mut self, sent: Instant, answer: Queued, now: Instant) {
        self.queued = Some((sent, answer.last_fence));
        let pause = answer.pause + answer.pause / 4 * u32::from(self.jitter) / u32::from(u8::MAX);
        self.ask_at = now + answer.free_in.map_or(pause, |free_in| pause.min(free_in + ROUNDING));
    }

    /// Takes note of a message. Gives the instant from which the lease counts, and its fence, if
    /// that is how the lock was got.
    ///
    /// The lock was handed over after the question was executed, hence also after it was sent. A
    /// message of an earlier time, when the token had held the lock already and lost it, has a
    /// fence that was not new any more when the question was answered.
    pub(crate) fn told(&mut self, message: Message, now: Instant) -> Option<(Instant, Fence)> {
        match (message, self.queued) {
            (Message::Held(fence), Some((sent, last))) if fence > last => {
                let is_fresh = now.saturating_duration_since(sent) < self.ttl / FRESH;
                if self.trusts_messages && is_fresh {
                    return Some((sent, fence));
                }
                self.ask_at = now;
            }
            (Message::Held(_), _) => {}
            (Message::Free(within), _) => self.ask_at = self.ask_at.min(now + within + ROUNDING),
            (Message::Lost, _) => self.ask_at = now,
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn waiter(ttl: u32, wait: Option<Duration>, jitter: u8) -> (Waiter, Instant) {
        let now = Instant::now();
        (Waiter::new(MS * ttl, wait.map(|wait| now + wait), true, now, jitter), now)
    }

    fn answer(pause: u32, free_in: Option<u32>, last_fence: u64) -> Queued {
        let free_in = free_in.map(|ms| MS * ms);
        Queued { pause: MS * pause, free_in, last_fence: Fence::new(last_fence) }
    }

    fn held(fence: u64) -> Message {
        Message::Held(Fence::new(fence))
    }

    #[test]
    fn asks_at_once_and_then_after_the_pause_and_up_to_a_quarter() {
        for (jitter, pause) in [(0, 400), (u8::MAX, 500)] {
            let (mut waiter, start) = waiter(3_000, None, jitter);
            assert_eq!(waiter.ask_at(), start);
            waiter.queued(start, answer(400, None, 1), start + MS * 7);
            assert_eq!(waiter.ask_at(), start + MS * (7 + pause));
        }
    }

    #[test]
    fn pauses_for_a_third_of_the_ttl_and_no_longer_than_a_second() {
        assert_eq!(waiter(600, None, 0).0.pause(), MS * 200);
        assert_eq!(waiter(30_000, None, 0).0.pause(), MS * 1_000);
    }

    #[test]
    fn asks_when_the_lock_is_free_at_the_latest() {
        let (mut waiter, start) = waiter(3_000, None, u8::MAX);
        waiter.queued(start, answer(1_000, Some(20), 1), start);
        assert_eq!(waiter.ask_at(), start + MS * 21);
        waiter.told(Message::Free(MS * 5), start + MS * 10);
        assert_eq!(waiter.ask_at(), start + MS * 16);
        waiter.told(Message::Free(MS * 500), start + MS * 10);
        assert_eq!(waiter.ask_at(), start + MS * 16, "what is said later does not make it wait");
    }

    #[test]
    fn asks_at_once_when_messages_may_have_been_lost() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        waiter.queued(start, answer(1_000, None, 1), start);
        assert_eq!(waiter.told(Message::Lost, start + MS), None);
        assert_eq!(waiter.ask_at(), start + MS);
    }

    #[test]
    fn asks_for_the_last_time_when_the_time_to_wait_is_over() {
        let (mut waiter, start) = waiter(3_000, Some(MS * 50), 0);
        waiter.queued(start, answer(1_000, None, 1), start);
        assert_eq!(waiter.ask_at(), start + MS * 50);
        assert!(waiter.waits(start + MS * 49));
        assert!(!waiter.waits(start + MS * 50));
        assert!(!self::waiter(3_000, Some(Duration::ZERO), 0).0.waits(Instant::now()));
    }

    #[test]
    fn a_lease_that_was_handed_over_counts_from_the_question() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        waiter.queued(start, answer(1_000, None, 7), start + MS);
        assert_eq!(waiter.told(held(8), start + MS * 299), Some((start, Fence::new(8))));
    }

    #[test]
    fn a_question_that_is_too_old_is_asked_again() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        waiter.queued(start, answer(1_000, None, 7), start + MS);
        assert_eq!(waiter.told(held(8), start + MS * 300), None);
        assert_eq!(waiter.ask_at(), start + MS * 300);
    }

    #[test]
    fn a_waiter_that_does_not_trust_messages_asks() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        waiter.trusts_messages = false;
        waiter.queued(start, answer(1_000, None, 7), start + MS);
        assert_eq!(waiter.told(held(8), start + MS * 2), None);
        assert_eq!(waiter.ask_at(), start + MS * 2);
    }

    #[test]
    fn a_message_of_an_earlier_time_changes_nothing() {
        let (mut waiter, start) = waiter(3_000, None, 0);
        assert_eq!(waiter.told(held(8), start), None, "nothing has been answered");
        waiter.queued(start, answer(1_000, None, 8), start);
        let before = waiter.clone();
        for fence in [1, 8] {
            assert_eq!(waiter.told(held(fence), start + MS), None);
        }
        assert_eq!(waiter, before);
    }

    /// Random histories against what must always hold.
    #[test]
    fn random_histories_keep_the_promises() {
        let mut state = 42_u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        };
        for _ in 0..1_000_000 {
            let ttl = MS * 100 + MS * u32::try_from(below(5_000)).unwrap();
            let start = Instant::now();
            let until = (below(3) == 0).then(|| start + Duration::from_millis(below(3_000)));
            let jitter = u8::try_from(below(256)).unwrap();
            let mut waiter = Waiter::new(ttl, until, true, start, jitter);
            let (mut now, mut question) = (start, None);
            for _ in 0..12 {
                now += Duration::from_millis(below(400));
                let (before, pause) = (waiter.ask_at(), Duration::from_millis(1 + below(1_000)));
                match below(5) {
                    0 => {
                        let sent =
                            now.checked_sub(Duration::from_millis(below(100))).unwrap().max(start);
                        let last_fence = Fence::new(below(100));
                        let free_in = (below(2) == 0).then_some(pause / 2);
                        waiter.queued(sent, Queued { pause, free_in, last_fence }, now);
                        question = Some((sent, last_fence));
                        assert!(waiter.ask_at() <= now + pause * 5 / 4, "it pauses too long");
                        assert!(
                            free_in.is_none_or(|free| waiter.ask_at() <= now + free + ROUNDING)
                        );
                    }
                    1 => assert_eq!(waiter.told(Message::Lost, now), None),
                    2 => assert_eq!(waiter.told(Message::Free(pause), now), None),
                    _ => {
                        let fence = Fence::new(below(100));
                        let granted = waiter.told(Message::Held(fence), now);
                        let new = question.filter(|(_, last)| fence > *last).map(|(sent, _)| sent);
                        let fresh = new.filter(|sent| now - *sent < ttl / FRESH);
                        assert_eq!(granted, fresh.map(|sent| (sent, fence)));
                        let asks_now = until.map_or(now, |until| until.min(now));
                        match (new, granted) {
                            (Some(_), None) => assert_eq!(waiter.ask_at(), asks_now),
                            _ => assert_eq!(waiter.ask_at(), before),
                        }
                    }
                }
                assert!(until.is_none_or(|until| waiter.ask_at() <= until));
                assert!(until.is_some() || waiter.waits(now));
            }
        }
    }
}
