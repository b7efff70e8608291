//! [`Acquire`]: one attempt to get the votes of a majority, and the release of the votes if it
//! fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::node::Nodes;
use super::pending::{Attempt, Pending, ReleaseOrder};
use super::quorum::{Action, Event, Round};
use crate::fence::Fence;
use crate::store::redis::client::connection::Connection;
use crate::store::redis::client::error::ClientError;
use crate::store::redis::client::fan_out::FanOut;
use crate::store::redis::reply::Acquisition;
use crate::store::{Claim, Owned, Release, StoreError};

/// An attempt for one claim.
pub(super) struct Acquire<'a> {
    nodes: &'a Nodes,
    pending: &'a Arc<Pending>,
    claim: &'a Claim,
    attempt: Arc<Attempt>,
    /// An instant before the first request.
    sent: Instant,
    votes: Vec<Vote>,
    replies: FanOut<(usize, Reply)>,
    /// When the missing replies no longer count.
    deadline: Instant,
}

/// The reply of a server.
enum Reply {
    Acquired(Result<(Acquisition, Connection), ClientError>),
    Confirmed(Result<Owned, ClientError>),
}

/// What is known about the vote of a server.
enum Vote {
    Unknown,
    /// Granted on this connection.
    Granted(Connection),
    /// Granted, but not confirmed.
    Unconfirmed(ClientError),
    Busy(Holder),
    NotALock {
        kind: String,
    },
    Failed(ClientError),
}

/// Another holder of the lock on a server, and when the key expires, if it does.
type Holder = (Option<Box<str>>, Option<Duration>);

/// Why a round was lost.
pub(super) enum Defeat {
    /// Enough servers have replied, and on some of them another holder has the lock.
    Busy(Holder),
    NotALock {
        kind: String,
    },
    Failed(StoreError),
}

impl<'a> Acquire<'a> {
    /// Prepares the requests to all servers.
    pub(super) fn begin(nodes: &'a Nodes, pending: &'a Arc<Pending>, claim: &'a Claim) -> Self {
        let sent = Instant::now();
        let attempt = pending.begin(claim, nodes.len());
        let replies = FanOut::new(nodes.iter().map(|(index, node)| {
            let attempt = Arc::clone(&attempt);
            async move { (index, Reply::Acquired(node.acquire(index, attempt).await)) }
        }));
        let votes = nodes.iter().map(|_| Vote::Unknown).collect();
        let deadline = sent + nodes.patience(claim.ttl);
        Self { nodes, pending, claim, attempt, sent, votes, replies, deadline }
    }

    /// Returns the instant from which the lease counts, and its fence. After a lost round, no vote
    /// is left, except votes of late servers, which are released in the background.
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
                        self.find_cause().await;
                        return Err(self.lose().await);
                    }
                }
            }
        }
    }

    async fn next_event(&mut self) -> Event {
        loop {
            match timeout_at(self.deadline.into(), self.replies.next()).await {
                Ok(Some((index, reply))) => return apply(&mut self.votes[index], index, reply),
                // Connecting may take longer than a reply.
                Err(_)
                    if self.attempt.sent() < self.nodes.quorum()
                        && self.deadline < self.sent + self.nodes.timeout =>
                {
                    self.deadline = self.sent + self.nodes.timeout;
                }
                Ok(None) | Err(_) => return Event::Deadline,
            }
        }
    }

    /// Awaits further replies to a lost round, until it is clear whether other contenders or
    /// unavailable servers are the cause.
    async fn find_cause(&mut self) {
        let (quorum, count) = (self.nodes.quorum(), self.votes.len());
        loop {
            let failed = self.votes.iter().filter(|vote| vote.is_failed()).count();
            let unknown = self.votes.iter().filter(|vote| matches!(vote, Vote::Unknown)).count();
            if unknown == 0 || failed > count - quorum || count - failed - unknown >= quorum {
                return;
            }
            let reply = timeout_at(self.deadline.into(), self.replies.next()).await;
            let Ok(Some((index, reply))) = reply else { return };
            apply(&mut self.votes[index], index, reply);
        }
    }

    fn confirm(&mut self, node: usize, fence: Fence) {
        if let Vote::Granted(connection) = &self.votes[node] {
            let server = Arc::clone(self.nodes.get(node));
            let confirmed = server.confirm(connection.clone(), Arc::clone(&self.attempt), fence);
            self.replies.add(async move { (node, Reply::Confirmed(confirmed.await)) });
            self.deadline = Instant::now() + self.nodes.patience(self.claim.ttl);
        }
    }

    /// Awaits the missing replies of a won round in the background. Late votes are kept, unless the
    /// lock is released in the meantime.
    fn finish(self) {
        let (pending, token) = (Arc::clone(self.pending), self.claim.token);
        if self.replies.is_empty() {
            return pending.end(token);
        }
        let late = release_late_votes(self.replies, self.attempt, self.nodes.clone());
        tokio::spawn(async move {
            late.await;
            pending.end(token);
        });
    }

    /// Releases all votes, including those that may still arrive, and returns the cause of the
    /// loss.
    async fn lose(mut self) -> Defeat {
        let is_late = Instant::now() >= self.deadline;
        let (order, mut releases, mut granted) = (self.release_order(), FanOut::default(), 0);
        let carriers = self.pending.release(&order, self.votes.len());
        for (((_, node), vote), carrier) in self.nodes.iter().zip(&mut self.votes).zip(carriers) {
            let is_granted = matches!(vote, Vote::Granted(_) | Vote::Unconfirmed(_));
            if is_late && matches!(vote, Vote::Unknown) {
                *vote = Vote::Failed(match &carrier {
                    Some(_) => ClientError::no_reply(),
                    None => ClientError::not_executed("no connection in time"),
                });
            }
            if is_granted || carrier.is_some() {
                granted += usize::from(is_granted);
                let release = node.release(Arc::clone(&order), carrier);
                releases.add(async move {
                    let _ = release.await;
                    is_granted
                });
            }
        }
        if !self.replies.is_empty() {
            tokio::spawn(release_late_votes(self.replies, self.attempt, self.nodes.clone()));
        }
        await_granted(releases, granted, self.nodes.patience(self.claim.ttl)).await;
        defeat(self.nodes, self.votes)
    }

    /// The release after a lost round. No waiter is notified, because the lock was not held.
    fn release_order(&self) -> Arc<ReleaseOrder> {
        let Claim { key, token, .. } = self.claim;
        let release = Release { key: key.clone(), token: *token, keep_until: None };
        Arc::new(ReleaseOrder { release, channel: String::new() })
    }
}

impl Vote {
    fn is_failed(&self) -> bool {
        matches!(self, Self::Unconfirmed(_) | Self::Failed(_))
    }
}

impl Reply {
    /// Whether the server may hold the lock because of the request.
    fn may_hold(&self) -> bool {
        match self {
            Self::Acquired(Ok((reply, _))) => matches!(reply, Acquisition::Granted(..)),
            Self::Acquired(Err(error)) => error.may_have_run(),
            Self::Confirmed(_) => false,
        }
    }
}

/// Applies a reply to what is known about the server's vote.
fn apply(vote: &mut Vote, node: usize, reply: Reply) -> Event {
    let lost = Event::Lost { node };
    let (new, event) = match reply {
        Reply::Acquired(Ok((Acquisition::Granted(number, _), connection))) => {
            (Vote::Granted(connection), Event::Granted { node, number: number.get() })
        }
        Reply::Acquired(Ok((Acquisition::Busy { holder, free_in }, _))) => {
            (Vote::Busy((holder, free_in)), lost)
        }
        Reply::Acquired(Ok((Acquisition::NotALock { kind }, _))) => (Vote::NotALock { kind }, lost),
        Reply::Acquired(Ok((Acquisition::Queued(_), _))) => {
            let error = "unexpected reply from the server: there is no queue";
            (Vote::Unconfirmed(ClientError::unknown(error)), lost)
        }
        Reply::Acquired(Err(error)) => (Vote::Failed(error), lost),
        Reply::Confirmed(Ok(Owned::Yes)) => return Event::Confirmed { node },
        Reply::Confirmed(Ok(Owned::No)) => {
            (Vote::Failed(ClientError::not_executed("the vote was lost again")), lost)
        }
        Reply::Confirmed(Err(error)) => (Vote::Unconfirmed(error), lost),
    };
    *vote = new;
    event
}

/// Sends all releases, so that the next round finds no vote in its way, and awaits the replies of
/// the servers that `granted` the lock, but no longer than `patience`.
async fn await_granted(mut releases: FanOut<bool>, mut granted: usize, patience: Duration) {
    let patience = if granted > 0 { patience } else { Duration::ZERO };
    let all = async {
        while let Some(is_granted) = releases.next().await {
            granted -= usize::from(is_granted);
            if granted == 0 {
                break;
            }
        }
    };
    let _ = timeout_at((Instant::now() + patience).into(), all).await;
    releases.detach();
}

/// Awaits the missing replies. If a server has granted a lock that was released in the meantime,
/// releases it there once more, because the request may have been sent after the release.
async fn release_late_votes(
    mut replies: FanOut<(usize, Reply)>,
    attempt: Arc<Attempt>,
    nodes: Nodes,
) {
    while let Some((index, reply)) = replies.next().await {
        if let Some(order) = attempt.released().filter(|_| reply.may_hold()) {
            tokio::spawn(Arc::clone(nodes.get(index)).release(order, None));
        }
    }
}

/// What a lost round means for the claim.
fn defeat(nodes: &Nodes, votes: Vec<Vote>) -> Defeat {
    let (mut granted, mut unknown) = (0, 0);
    let (mut others, mut kinds, mut causes) = (Vec::new(), Vec::new(), Vec::new());
    for (index, vote) in votes.into_iter().enumerate() {
        match vote {
            Vote::Granted(_) => granted += 1,
            Vote::Busy(holder) => others.push((index, holder)),
            Vote::NotALock { kind } => kinds.push((index, kind)),
            Vote::Failed(error) | Vote::Unconfirmed(error) => causes.push((index, error)),
            Vote::Unknown => unknown += 1,
        }
    }
    if kinds.len() > nodes.len() - nodes.quorum()
        && let Some((_, kind)) = kinds.pop()
    {
        return Defeat::NotALock { kind };
    }
    if !others.is_empty() && granted + others.len() >= nodes.quorum() {
        return Defeat::Busy(leading(others.into_iter().map(|(_, holder)| holder).collect()));
    }
    for (index, kind) in kinds {
        causes.push((index, ClientError::refused(format!("the key holds a {kind}"))));
    }
    for (index, _) in others {
        causes.push((index, ClientError::not_executed("another holder has the lock")));
    }
    causes.sort_by_key(|(index, _)| *index);
    // Once it is clear that the votes are too few, missing replies are not awaited.
    let at_most = if unknown > 0 { "at most " } else { "" };
    let done = format!("{at_most}{} of {} servers granted it", granted + unknown, nodes.len());
    Defeat::Failed(nodes.too_few(done, &causes))
}

/// The holder with the most votes, and when its key expires at the latest.
fn leading(mut holders: Vec<Holder>) -> Holder {
    // A key without an expiry outlives all others.
    holders.sort_by_key(|(_, free_in)| free_in.unwrap_or(Duration::MAX));
    let count = |name: &Option<Box<str>>| holders.iter().filter(|(other, _)| other == name).count();
    holders.iter().max_by_key(|(name, _)| count(name)).cloned().unwrap_or_default()
}
