//! The quorum rule: one round of votes, and the count of replies about one lease. Pure, so that
//! both can be tested and model-checked as they are.

#![allow(unreachable_pub, clippy::must_use_candidate, reason = "public for the model only")]

use crate::store::Owned;

/// How many of `nodes` servers are a majority.
pub fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// The votes of all servers, from the request to the end of the round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Round {
    votes: Vec<Vote>,
    /// The fence that the servers confirm, once a majority has granted the lock.
    fence: Option<u64>,
    is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Vote {
    Requested,
    /// With the next number of the server's counter.
    Granted(u64),
    Confirmed,
    /// Not granted, or no longer valid.
    Lost,
}

/// The reply of a server, or the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The server has granted the lock.
    Granted {
        /// The index of the server.
        node: usize,
        /// The next number of its fence counter.
        number: u64,
    },
    /// The token still held the lock on the server, and its counter is not below the fence.
    Confirmed {
        /// The index of the server.
        node: usize,
    },
    /// The server has refused, could not be reached, or no longer holds the lock for the token.
    Lost {
        /// The index of the server.
        node: usize,
    },
    /// The time for the missing replies is over.
    Deadline,
}

/// The reaction to an [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Request the confirmation of the fence.
    Confirm {
        /// The index of the server.
        node: usize,
        /// The fence.
        fence: u64,
    },
    /// The lock is granted.
    Win {
        /// Its fence.
        fence: u64,
    },
    /// The lock is not granted: release all votes.
    Lose,
}

impl Round {
    /// A round of `nodes` servers.
    pub fn new(nodes: usize) -> Self {
        Self { votes: vec![Vote::Requested; nodes], fence: None, is_over: false }
    }

    /// Applies an event and returns the reactions.
    ///
    /// The fence is above the numbers of a majority, and so above every fence that was confirmed
    /// before they voted. A server that grants the lock later may confirm the fence, too, if its
    /// number is lower: a greater number may stem from the fence of a later holder.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        if self.is_over {
            return Vec::new();
        }
        let mut actions = Vec::new();
        match (event, self.fence) {
            (Event::Granted { node, number }, None) => {
                self.votes[node] = Vote::Granted(number);
                actions = self.confirm();
            }
            (Event::Granted { node, number }, Some(fence)) if number < fence => {
                self.votes[node] = Vote::Granted(number);
                actions.push(Action::Confirm { node, fence });
            }
            (Event::Confirmed { node }, _) => self.votes[node] = Vote::Confirmed,
            (Event::Granted { node, .. } | Event::Lost { node }, _) => {
                self.votes[node] = Vote::Lost;
            }
            (Event::Deadline, _) => {}
        }
        let quorum = quorum(self.votes.len());
        let confirmed = self.votes.iter().filter(|vote| **vote == Vote::Confirmed).count();
        let possible = self.votes.iter().filter(|vote| **vote != Vote::Lost).count();
        match self.fence {
            Some(fence) if confirmed >= quorum => {
                self.is_over = true;
                actions.push(Action::Win { fence });
            }
            _ if possible < quorum || event == Event::Deadline => {
                self.is_over = true;
                actions = vec![Action::Lose];
            }
            _ => {}
        }
        actions
    }

    /// Chooses the fence, and requests its confirmation, once a majority has granted the lock.
    fn confirm(&mut self) -> Vec<Action> {
        let granted = self.votes.iter().enumerate().filter_map(|(node, vote)| match vote {
            Vote::Granted(number) => Some((node, *number)),
            _ => None,
        });
        let granted: Vec<_> = granted.collect();
        if granted.len() < quorum(self.votes.len()) {
            return Vec::new();
        }
        let last = granted.iter().map(|(_, number)| *number).max().unwrap_or_default();
        let fence = last.saturating_add(1);
        self.fence = Some(fence);
        granted.into_iter().map(|(node, _)| Action::Confirm { node, fence }).collect()
    }
}

/// The count of the replies about one lease that is renewed or released.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReplyCount {
    pub(super) yes: usize,
    no: usize,
}

impl ReplyCount {
    pub(super) fn add(&mut self, owned: Owned) {
        match owned {
            Owned::Yes => self.yes += 1,
            Owned::No => self.no += 1,
        }
    }

    /// Whether a majority holds the lock (`Yes`), or no majority can hold it any longer (`No`).
    /// `None` while neither is certain.
    pub(super) fn decision(self, nodes: usize) -> Option<Owned> {
        let quorum = quorum(nodes);
        if self.yes >= quorum {
            Some(Owned::Yes)
        } else if self.no > nodes - quorum {
            Some(Owned::No)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(node: usize, number: u64) -> Event {
        Event::Granted { node, number }
    }

    fn confirm(fence: u64, nodes: &[usize]) -> Vec<Action> {
        nodes.iter().map(|&node| Action::Confirm { node, fence }).collect()
    }

    #[test]
    fn majority_grants_and_confirms() {
        let mut round = Round::new(5);
        assert_eq!(round.step(granted(4, 7)), []);
        assert_eq!(round.step(Event::Lost { node: 0 }), []);
        assert_eq!(round.step(granted(1, 9)), []);
        assert_eq!(round.step(granted(3, 8)), confirm(10, &[1, 3, 4]));
        assert_eq!(round.step(Event::Confirmed { node: 1 }), []);
        assert_eq!(round.step(Event::Confirmed { node: 4 }), []);
        assert_eq!(round.step(Event::Confirmed { node: 3 }), [Action::Win { fence: 10 }]);
        assert_eq!(round.step(granted(2, 1)), [], "the round is over");
    }

    #[test]
    fn late_vote_confirms_a_fence_above_its_number() {
        let mut round = Round::new(5);
        for node in 0..3 {
            round.step(granted(node, 5));
        }
        assert_eq!(round.step(granted(3, 6)), [], "the server may know a later holder");
        assert_eq!(round.step(granted(4, 5)), confirm(6, &[4]));
        assert_eq!(round.step(Event::Lost { node: 0 }), []);
        for node in [1, 4] {
            assert_eq!(round.step(Event::Confirmed { node }), []);
        }
        assert_eq!(round.step(Event::Confirmed { node: 2 }), [Action::Win { fence: 6 }]);
    }

    #[test]
    fn round_is_lost_without_a_possible_majority() {
        for event in [Event::Lost { node: 2 }, Event::Deadline] {
            let mut round = Round::new(3);
            assert_eq!(round.step(Event::Lost { node: 0 }), []);
            assert_eq!(round.step(event), [Action::Lose]);
            assert_eq!(round.step(granted(1, 1)), []);
        }
        let mut round = Round::new(3);
        round.step(granted(0, 1));
        assert_eq!(round.step(granted(1, 4)), confirm(5, &[0, 1]));
        assert_eq!(round.step(granted(2, 5)), []);
        assert_eq!(round.step(Event::Lost { node: 0 }), [Action::Lose], "two votes are lost");
    }

    #[test]
    fn majority_decides_and_missing_replies_do_not() {
        let decision = |replies: &[Option<Owned>]| {
            let mut count = ReplyCount::default();
            replies.iter().flatten().for_each(|owned| count.add(*owned));
            count.decision(5)
        };
        let (yes, no) = (Some(Owned::Yes), Some(Owned::No));
        assert_eq!(decision(&[yes, no, yes, no, yes]), yes);
        assert_eq!(decision(&[yes, no, yes, no, no]), no);
        assert_eq!(decision(&[no, no, no]), no);
        for open in [&[][..], &[yes, yes], &[yes, yes, no, no, None], &[None; 5]] {
            assert_eq!(decision(open), None);
        }
    }
}
