//! One attempt to get the votes of a majority, and what becomes of the votes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::Redlock;
use super::attempts::Attempt;
use super::crowd::Crowd;
use super::node::{Node, Return};
use super::round::{Action, Event, Round};
use crate::Fence;
use crate::store::redis::answer::Answer;
use crate::store::redis::line::Line;
use crate::store::{Claim, Owned, Release, StoreError};

/// An attempt for one claim.
pub(super) struct Ballot<'a> {
    store: &'a Redlock,
    claim: &'a Claim,
    attempt: Arc<Attempt>,
    /// Before the first question.
    sent: Instant,
    votes: Vec<Vote>,
    replies: Crowd<(usize, Reply)>,
    /// When the answers that are missing count no more.
    deadline: Instant,
}

/// An answer of a server.
enum Reply {
    Take(Result<(Answer, Line), StoreError>),
    Confirm(Result<Owned, StoreError>),
}

/// What is known of the vote of a server.
enum Vote {
    Unknown,
    /// On this line.
    Granted(Line),
    /// Granted, but not confirmed.
    Unconfirmed(StoreError),
    Busy(Holder),
    NotALock {
        kind: String,
    },
    Failed(StoreError),
}

/// Somebody else who holds the lock on a server, and when that ends if it does.
type Holder = (Option<Box<str>>, Option<Duration>);

/// How a round was lost.
pub(super) enum Defeat {
    /// Enough servers have answered, and some of them that somebody else holds the lock.
    Busy(Holder),
    NotALock {
        kind: String,
    },
    Failed(StoreError),
}

impl<'a> Ballot<'a> {
    pub(super) fn begin(store: &'a Redlock, claim: &'a Claim) -> Self {
        let sent = Instant::now();
        let attempt = store.attempts.begin(claim, store.nodes.len());
        let replies = Crowd::new(store.all().map(|(index, node)| {
            let attempt = Arc::clone(&attempt);
            async move { (index, Reply::Take(node.take(index, attempt).await)) }
        }));
        let votes = store.nodes.iter().map(|_| Vote::Unknown).collect();
        let deadline = sent + store.patience(claim.ttl);
        Self { store, claim, attempt, sent, votes, replies, deadline }
    }

    /// The instant from which the lease counts, and its fence. When the round is lost, no vote is left,
    /// except for those that are given back in the background because their servers are late.
    pub(super) async fn run(mut self) -> Result<(Instant, Fence), Defeat> {
        let mut round = Round::new(self.votes.len());
        loop {
            let event = self.next_event().await;
            for action in round.step(event) {
                match action {
                    Action::Confirm { node, fence } => self.confirm(node, Fence::new(fence)),
                    Action::Win { fence } => {
                        let sent = self.sent;
                        self.finish();
                        return Ok((sent, Fence::new(fence)));
                    }
                    Action::Lose => {
                        self.learn_why().await;
                        return Err(self.lose().await);
                    }
                }
            }
        }
    }

    async fn next_event(&mut self) -> Event {
        loop {
            match timeout_at(self.deadline.into(), self.replies.next()).await {
                Ok(Some((index, reply))) => return note(&mut self.votes[index], index, reply),
                // Connecting may take longer than an answer.
                Err(_)
                    if self.attempt.asked() < self.store.quorum()
                        && self.deadline < self.sent + self.store.timeout =>
                {
                    self.deadline = self.sent + self.store.timeout;
                }
                Ok(None) | Err(_) => return Event::Deadline,
            }
        }
    }

    /// Awaits further answers to a round that is lost, while it is not known whether because of others
    /// who want the lock or because of servers that are away.
    async fn learn_why(&mut self) {
        let (quorum, count) = (self.store.quorum(), self.votes.len());
        loop {
            let failed = self.votes.iter().filter(|vote| vote.is_failed()).count();
            let unknown = self.votes.iter().filter(|vote| matches!(vote, Vote::Unknown)).count();
            if unknown == 0 || failed > count - quorum || count - failed - unknown >= quorum {
                return;
            }
            let reply = timeout_at(self.deadline.into(), self.replies.next()).await;
            let Ok(Some((index, reply))) = reply else { return };
            note(&mut self.votes[index], index, reply);
        }
    }

    fn confirm(&mut self, node: usize, fence: Fence) {
        if let Vote::Granted(line) = &self.votes[node] {
            let confirmed = Node::confirm(line.clone(), Arc::clone(&self.attempt), fence);
            self.replies.add(async move { (node, Reply::Confirm(confirmed.await)) });
            self.deadline = Instant::now() + self.store.patience(self.claim.ttl);
        }
    }

    /// Awaits the answers that are missing to a round that was won. The votes among them are kept, unless
    /// the lock is given back meanwhile.
    fn finish(self) {
        let (attempts, token) = (Arc::clone(&self.store.attempts), self.claim.token);
        if self.replies.is_empty() {
            return attempts.forget(token);
        }
        let late = give_back_late(self.replies, self.attempt, self.store.nodes.clone());
        tokio::spawn(async move {
            late.await;
            attempts.forget(token);
        });
    }

    /// Gives back all votes, also those that may still come.
    async fn lose(mut self) -> Defeat {
        let is_late = Instant::now() >= self.deadline;
        let (back, mut returns, mut granted) = (self.vote(), Crowd::default(), 0);
        let lines = self.store.attempts.give_back(&back, self.votes.len());
        for (((_, node), vote), line) in self.store.all().zip(&mut self.votes).zip(lines) {
            let is_granted = matches!(vote, Vote::Granted(_) | Vote::Unconfirmed(_));
            if is_late && matches!(vote, Vote::Unknown) {
                *vote = Vote::Failed(match &line {
                    Some(_) => StoreError::no_answer(),
                    None => StoreError::NotExecuted("no connection in time".into()),
                });
            }
            if is_granted || line.is_some() {
                granted += usize::from(is_granted);
                let given_back = node.give_back(Arc::clone(&back), line);
                returns.add(async move {
                    let _ = given_back.await;
                    is_granted
                });
            }
        }
        if !self.replies.is_empty() {
            tokio::spawn(give_back_late(self.replies, self.attempt, self.store.nodes.clone()));
        }
        // All of them are sent before this returns, so that the next round finds none in its way; those
        // that are known to be there are awaited.
        let patience =
            if granted > 0 { self.store.patience(self.claim.ttl) } else { Duration::ZERO };
        let known = async {
            while let Some(is_granted) = returns.next().await {
                granted -= usize::from(is_granted);
                if granted == 0 {
                    break;
                }
            }
        };
        let _ = timeout_at((Instant::now() + patience).into(), known).await;
        returns.finish();
        defeat(self.store, self.votes)
    }

    /// What is given back. Nobody has waited for the end of an attempt that failed.
    fn vote(&self) -> Arc<Return> {
        let Claim { key, token, .. } = self.claim;
        let release = Release { key: key.clone(), token: *token, keep_until: None };
        Arc::new(Return { release, channel: String::new() })
    }
}

impl Vote {
    fn is_failed(&self) -> bool {
        matches!(self, Self::Unconfirmed(_) | Self::Failed(_))
    }
}

impl Reply {
    /// Whether the server may hold the lock because of the question.
    fn may_hold(&self) -> bool {
        match self {
            Self::Take(Ok((answer, _))) => matches!(answer, Answer::Granted(..)),
            Self::Take(Err(error)) => error.may_have_run(),
            Self::Confirm(_) => false,
        }
    }
}

/// Takes note of an answer, which changes what is known of the server's vote.
fn note(vote: &mut Vote, node: usize, reply: Reply) -> Event {
    let lost = Event::Lost { node };
    let (new, event) = match reply {
        Reply::Take(Ok((Answer::Granted(number, _), line))) => {
            (Vote::Granted(line), Event::Granted { node, number: number.get() })
        }
        Reply::Take(Ok((Answer::Busy { holder, free_in }, _))) => {
            (Vote::Busy((holder, free_in)), lost)
        }
        Reply::Take(Ok((Answer::NotALock { kind }, _))) => (Vote::NotALock { kind }, lost),
        Reply::Take(Ok((Answer::Queued(_), _))) => {
            let error = "the server answered as if there were a queue";
            (Vote::Unconfirmed(StoreError::Unknown(error.into())), lost)
        }
        Reply::Take(Err(error)) => (Vote::Failed(error), lost),
        Reply::Confirm(Ok(Owned::Yes)) => return Event::Confirmed { node },
        Reply::Confirm(Ok(Owned::No)) => {
            (Vote::Failed(StoreError::NotExecuted("it was lost again".into())), lost)
        }
        Reply::Confirm(Err(error)) => (Vote::Unconfirmed(error), lost),
    };
    *vote = new;
    event
}

/// Awaits the answers that are missing. A server that has granted a lock that was given back meanwhile is
/// asked once more to give it back: the question may have been sent after that.
async fn give_back_late(
    mut replies: Crowd<(usize, Reply)>,
    attempt: Arc<Attempt>,
    nodes: Vec<Arc<Node>>,
) {
    while let Some((index, reply)) = replies.next().await {
        if let Some(back) = attempt.back().filter(|_| reply.may_hold()) {
            tokio::spawn(Arc::clone(&nodes[index]).give_back(back, None));
        }
    }
}

/// What a lost round means.
fn defeat(store: &Redlock, votes: Vec<Vote>) -> Defeat {
    let (mut granted, mut unknown) = (0, 0);
    let (mut others, mut kinds, mut causes) = (Vec::new(), Vec::new(), Vec::new());
    for (index, vote) in votes.into_iter().enumerate() {
        match vote {
            Vote::Granted(_) => granted += 1,
            Vote::Busy(holder) => others.push((index, holder)),
            Vote::NotALock { kind } => kinds.push((index, kind)),
            Vote::Failed(error) | Vote::Unconfirmed(error) => causes.push((index, Arc::new(error))),
            Vote::Unknown => unknown += 1,
        }
    }
    if kinds.len() > store.nodes.len() - store.quorum()
        && let Some((_, kind)) = kinds.pop()
    {
        return Defeat::NotALock { kind };
    }
    if !others.is_empty() && granted + others.len() >= store.quorum() {
        return Defeat::Busy(foremost(others.into_iter().map(|(_, holder)| holder).collect()));
    }
    for (index, kind) in kinds {
        let error = StoreError::Refused(format!("a {kind} is kept there").into());
        causes.push((index, Arc::new(error)));
    }
    for (index, _) in others {
        causes.push((index, Arc::new(StoreError::NotExecuted("somebody else holds it".into()))));
    }
    causes.sort_by_key(|(index, _)| *index);
    // Not all are asked to the end when it is clear that they are too few.
    let at_most = if unknown > 0 { "at most " } else { "" };
    let did = format!("{at_most}{} of {} servers granted it", granted + unknown, store.nodes.len());
    Defeat::Failed(store.too_few(did, &causes))
}

/// Who holds the lock on most servers, and when that ends at the latest.
fn foremost(mut holders: Vec<Holder>) -> Holder {
    // Without an end is later than any end.
    holders.sort_by_key(|(_, free_in)| free_in.unwrap_or(Duration::MAX));
    let count = |name: &Option<Box<str>>| holders.iter().filter(|(other, _)| other == name).count();
    holders.iter().max_by_key(|(name, _)| count(name)).cloned().unwrap_or_default()
}
