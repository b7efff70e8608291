//! One round of votes: who is asked to confirm, and when it is won or lost. Without input and output,
//! so that it can be tested and model-checked as it is.

/// The votes of all servers, from the question to the end of the round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Round {
    votes: Vec<Vote>,
    /// What the servers are asked to confirm, once a majority has granted the lock.
    fence: Option<u64>,
    is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Vote {
    Asked,
    /// With the next number of the server's counter.
    Granted(u64),
    Confirmed,
    /// It will not count.
    Lost,
}

/// What a server has answered, or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The server has granted the lock, with this number.
    Granted { node: usize, number: u64 },
    /// The lock was still ours there, and the server's counter is not below the fence.
    Confirmed { node: usize },
    /// The server has refused, could not be asked, or does not hold the lock for us any more.
    Lost { node: usize },
    /// The time for the answers that are missing is over.
    Deadline,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask the server to confirm the fence.
    Confirm { node: usize, fence: u64 },
    /// The lock is ours, with this fence.
    Win { fence: u64 },
    /// It is not: give back all votes.
    Lose,
}

impl Round {
    /// A round in which so many servers are asked.
    pub(crate) fn new(nodes: usize) -> Self {
        Self { votes: vec![Vote::Asked; nodes], fence: None, is_over: false }
    }

    /// How many of so many servers are a majority.
    pub(crate) fn quorum(nodes: usize) -> usize {
        nodes / 2 + 1
    }

    /// Takes note of an event, and says what to do.
    ///
    /// The fence is above the numbers of a majority, and so above every fence that was confirmed
    /// before they were asked. A server that grants the lock later may confirm it, too, if its number
    /// is below: a greater one may stem from the fence of somebody else, who had the lock meanwhile.
    pub(crate) fn step(&mut self, event: Event) -> Vec<Action> {
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
        let quorum = Self::quorum(self.votes.len());
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

    /// Chooses the fence, and asks for its confirmation, if a majority has granted the lock.
    fn confirm(&mut self) -> Vec<Action> {
        let granted = self.votes.iter().enumerate().filter_map(|(node, vote)| match vote {
            Vote::Granted(number) => Some((node, *number)),
            _ => None,
        });
        let granted: Vec<_> = granted.collect();
        if granted.len() < Self::quorum(self.votes.len()) {
            return Vec::new();
        }
        let last = granted.iter().map(|(_, number)| *number).max().unwrap_or_default();
        let fence = last.saturating_add(1);
        self.fence = Some(fence);
        granted.into_iter().map(|(node, _)| Action::Confirm { node, fence }).collect()
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
    fn a_majority_grants_and_confirms() {
        let mut round = Round::new(5);
        assert_eq!(round.step(granted(4, 7)), []);
        assert_eq!(round.step(Event::Lost { node: 0 }), []);
        assert_eq!(round.step(granted(1, 9)), []);
        assert_eq!(round.step(granted(3, 8)), confirm(10, &[1, 3, 4]));
        assert_eq!(round.step(Event::Confirmed { node: 1 }), []);
        assert_eq!(round.step(Event::Confirmed { node: 4 }), []);
        assert_eq!(round.step(Event::Confirmed { node: 3 }), [Action::Win { fence: 10 }]);
        assert_eq!(round.step(granted(2, 1)), [], "it is over");
    }

    #[test]
    fn a_late_vote_may_confirm_a_fence_above_its_number() {
        let mut round = Round::new(5);
        for node in 0..3 {
            round.step(granted(node, 5));
        }
        assert_eq!(round.step(granted(3, 6)), [], "it may know of a later holder");
        assert_eq!(round.step(granted(4, 5)), confirm(6, &[4]));
        assert_eq!(round.step(Event::Lost { node: 0 }), []);
        for node in [1, 4] {
            assert_eq!(round.step(Event::Confirmed { node }), []);
        }
        assert_eq!(round.step(Event::Confirmed { node: 2 }), [Action::Win { fence: 6 }]);
    }

    #[test]
    fn a_round_is_lost_when_no_majority_can_be_left() {
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
        assert_eq!(round.step(Event::Lost { node: 0 }), [Action::Lose], "two votes do not count");
    }
}
