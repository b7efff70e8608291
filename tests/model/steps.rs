//! What may happen to the keys of one lock, at random.

use crate::random::Random;
use crate::reference::{Holder, Inbox, LAST_FENCE, Question, Server, Token};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// So many microseconds pass.
    Pass(u64),
    /// The clock is put back by so many microseconds.
    Back(u64),
    /// The next server takes its place, with the same keys.
    FailOver,
    Connect(Inbox),
    Disconnect(Inbox),
    Acquire(Question),
    /// By the token, which leaves the key behind for a while or not, and has seen this fence.
    Release(Token, Option<u64>, u64),
    Renew(Token, u64),
    /// Somebody else writes the lock's key, or deletes it.
    Set(Option<Holder>, Option<u64>),
    DeleteQueue,
    DeletePeers,
    Flush,
    Counter(u64),
    /// The lock has been handed over without end for so long.
    Unbroken(u64),
}

impl Step {
    pub(crate) fn random(random: &mut Random, server: &Server) -> Self {
        let token = random.one_of(&[0, 1, 2, 3]);
        let inbox = random.one_of(&[0, 1]);
        let ttl = random.one_of(&[1, 100, 300, 3_000, 30_000]);
        let last = server.fence.unwrap_or(0);
        let seen =
            random.one_of(&[0, last, last, last, last.saturating_sub(3), last + 1, LAST_FENCE]);
        match random.below(64) {
            0..26 => Self::Acquire(Question {
                token,
                ttl,
                pause: (!random.one_in(6)).then(|| random.one_of(&[1, 33, 100, 1_000])),
                inbox: (!random.one_in(4)).then_some(inbox),
                seen,
            }),
            26..42 => {
                let holder = match server.holder {
                    Some(Holder::Token(holder)) if !random.one_in(4) => holder,
                    _ => token,
                };
                let keep = random.one_in(4).then(|| random.one_of(&[1, 50, 2_000]));
                Self::Release(holder, keep, seen)
            }
            42..44 => Self::Renew(token, ttl),
            44 => Self::Back(random.one_of(&[1_000, 90_000, 500_000])),
            45..56 => Self::Pass(random.one_of(&[
                1, 999, 1_000, 2_500, 5_000, 6_000, 50_000, 99_000, 101_000, 300_000, 950_000,
                1_000_000, 9_900_000, 60_000_000,
            ])),
            57 => Self::Unbroken(random.one_of(&[999, 1_000, 4_999, 5_000, 6_000])),
            58 if random.one_in(4) => Self::FailOver,
            58 => Self::Disconnect(inbox),
            59 => Self::Set(Some(Holder::Foreign), random.one_in(2).then_some(ttl)),
            60 if server.holder.is_none() => Self::Set(Some(Holder::NoLock), None),
            60 => Self::Set(None, None),
            61 if random.one_in(2) => Self::DeleteQueue,
            61 => Self::DeletePeers,
            62 if random.one_in(2) => Self::Flush,
            56 | 62 => Self::Connect(inbox),
            _ => {
                let ahead = server.now_us + 5_000_000;
                Self::Counter(random.one_of(&[7, ahead, LAST_FENCE - 1, LAST_FENCE]))
            }
        }
    }
}
