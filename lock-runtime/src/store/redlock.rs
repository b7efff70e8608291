//! Locks in several independent Redis servers: a majority of them has to grant each.
//!
//! Each server is asked to take the lock, with an answer that has the next number of its counter; those
//! that have, to confirm a fence above the numbers of a majority. The lock is held when a majority has
//! confirmed.
//!
//! A server that may have lost locks in a restart does not vote until it is older than the ttl. That is
//! enough if all who take a lock use the same ttl for it.

mod attempts;
mod ballot;
mod crowd;
mod electorate;
mod failure;
mod hints;
mod identity;
mod node;
mod pause;
mod round;
mod tally;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ConnectionInfo, Value};
use tokio::time::{sleep_until, timeout_at};

use self::attempts::Attempts;
use self::ballot::{Ballot, Defeat};
use self::crowd::Crowd;
use self::electorate::Electorate;
use self::failure::too_few;
use self::node::{Node, Return};
use self::round::Round;
use self::tally::Tally;
use super::redis::address;
use super::redis::answer::unexpected;
use super::redis::requests::Requests;
use super::redis::server::Common;
#[cfg(feature = "tls")]
use super::redis::tls;
use super::{
    Acquired, BoxFuture, Claim, Owned, Release, Renewal, Store, StoreError, current_runtime,
};

/// Fewer servers have no majority that can do without one of them.
const FEWEST: usize = 3;

/// Keeps locks in a majority of several Redis servers.
#[derive(Debug)]
pub(crate) struct Redlock {
    name: String,
    timeout: Duration,
    nodes: Vec<Arc<Node>>,
    attempts: Arc<Attempts>,
    requests: Arc<Requests>,
}

/// What is known of each of some leases.
type Answers = Vec<Result<Owned, StoreError>>;
/// What each server says of them.
type Replies = Crowd<(usize, Result<Answers, StoreError>)>;

impl Redlock {
    /// The store for these servers, or why they cannot be one.
    pub(crate) fn new(servers: Vec<ConnectionInfo>, timeout: Duration) -> Result<Self, String> {
        #[cfg(feature = "tls")]
        tls::prepare();
        let count = servers.len();
        if count < FEWEST || count.is_multiple_of(2) {
            return Err(format!(
                "redlock:// needs an odd number of servers, at least {FEWEST}, and there are {count}; \
                 an even number tolerates no more failures than one less"
            ));
        }
        let mut hosts = HashSet::new();
        if let Some(twice) = servers.iter().find(|info| !hosts.insert(info.addr().to_string())) {
            let name = address::name(twice);
            return Err(format!("{name} is named twice; each server has one vote"));
        }
        let name = address::names("redlock", &servers);
        let requests = Arc::<Requests>::default();
        let common = Common::new(timeout, Arc::downgrade(&requests), 0);
        let nodes = servers.into_iter().map(|info| Arc::new(Node::new(info, &common))).collect();
        Ok(Self { name, timeout, nodes, attempts: Arc::default(), requests })
    }

    /// Makes sure that a majority of the servers answers, and that no two of them are one.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        current_runtime()?;
        let checks = self.all().map(|(index, node)| async move { (index, node.check().await) });
        let mut checks = Crowd::new(checks);
        let (mut causes, electorate) = (Vec::new(), Electorate::default());
        while let Some((index, checked)) = checks.next().await {
            let name = &self.nodes[index].name;
            match checked {
                Ok(identity) => electorate
                    .admit(name, &identity)
                    .map_err(|error| StoreError::Refused(format!("{name} {error}").into()))?,
                Err(error) => causes.push((index, Arc::new(error))),
            }
        }
        let votes = self.nodes.len() - causes.len();
        if votes < self.quorum() {
            let did = format!("{votes} of {} servers answered", self.nodes.len());
            return Err(self.too_few(did, &causes));
        }
        for (index, error) in causes {
            let server = &*self.nodes[index].name;
            tracing::warn!(server, %error, "one of the servers that keep locks does not answer");
        }
        Ok(())
    }

    /// How many servers are a majority.
    fn quorum(&self) -> usize {
        Round::quorum(self.nodes.len())
    }

    fn all(&self) -> impl Iterator<Item = (usize, Arc<Node>)> {
        self.nodes.iter().cloned().enumerate()
    }

    fn too_few(&self, did: String, causes: &[(usize, Arc<StoreError>)]) -> StoreError {
        let named = causes.iter().map(|(index, error)| (&*self.nodes[*index].name, &**error));
        too_few(did, self.nodes.len(), &named.collect::<Vec<_>>())
    }

    /// How long a server may take to answer before the round goes on without it.
    fn patience(&self, ttl: Duration) -> Duration {
        self.timeout.min((ttl / 10).max(Duration::from_millis(50)))
    }

    /// Takes the lock, or pauses before the next attempt.
    async fn take(&self, claim: &Claim) -> Result<Acquired, StoreError> {
        current_runtime()?;
        let Claim { key, token, ttl, wait_until, attempt, .. } = claim;
        let listen = || hints::listen(self.requests.channels(), &self.nodes, key);
        let waits = wait_until.is_none_or(|until| Instant::now() < until);
        let told = (waits && *attempt > 0).then(listen);
        let busy = match Ballot::begin(self, claim).run().await {
            Ok((sent, fence)) => return Ok(Acquired::Granted { sent, fence }),
            Err(Defeat::NotALock { kind }) => return Ok(Acquired::NotALock { kind }),
            Err(Defeat::Failed(error)) => return Err(error),
            Err(Defeat::Busy((holder, expires_in))) => Acquired::Busy { holder, expires_in },
        };
        if !waits {
            return Ok(busy);
        }
        let told = told.unwrap_or_else(listen);
        let pause = Instant::now() + pause::after(*attempt, *ttl, token.seed());
        let until = wait_until.map_or(pause, |until| until.min(pause));
        if timeout_at(until.into(), told).await.is_ok() {
            let soon = Instant::now() + pause::when_freed(token.seed());
            sleep_until(until.min(soon).into()).await;
        }
        Ok(Acquired::Again)
    }

    /// Counts what the servers say of some leases, until all are decided or the time is over.
    async fn count(
        &self,
        mut replies: Replies,
        leases: usize,
        limit: Duration,
        did: &str,
    ) -> Answers {
        let limit = Instant::now() + limit;
        let count = self.nodes.len();
        let mut missing: Vec<_> = (0..count).collect();
        let mut tallies: Vec<_> = (0..leases).map(|_| Tally::default()).collect();
        let is_open = |tally: &Tally| tally.owned(count).is_none();
        while leases == 0 || tallies.iter().any(is_open) {
            let reply = timeout_at(limit.into(), replies.next()).await;
            let Ok(Some((index, reply))) = reply else { break };
            missing.retain(|node| *node != index);
            match reply {
                Ok(answers) => {
                    for (tally, answer) in tallies.iter_mut().zip(answers) {
                        tally.note(index, answer.map_err(Arc::new));
                    }
                }
                Err(error) => {
                    let error = Arc::new(error);
                    for tally in &mut tallies {
                        tally.note(index, Err(Arc::clone(&error)));
                    }
                }
            }
        }
        replies.finish();
        let late = Arc::new(StoreError::no_answer());
        let decided = |mut tally: Tally| {
            tally.owned(count).ok_or_else(|| {
                let late = missing.iter().map(|node| (*node, Arc::clone(&late)));
                tally.causes.extend(late);
                let did = format!("{} of {count} servers {did} it", tally.yes);
                self.too_few(did, &tally.causes)
            })
        };
        tallies.into_iter().map(decided).collect()
    }

    async fn renew_all(&self, leases: &[Renewal]) -> Answers {
        if let Err(error) = current_runtime() {
            let text = error.to_string();
            return leases.iter().map(|_| Err(StoreError::Refused(text.clone().into()))).collect();
        }
        let shared: (Arc<[Renewal]>, Arc<Electorate>) = (leases.into(), Arc::default());
        let replies = Crowd::new(self.all().map(|(index, node)| {
            let (leases, electorate) = shared.clone();
            async move { (index, node.renew(leases, electorate).await) }
        }));
        let answers = self.count(replies, leases.len(), self.timeout, "renewed").await;
        for (lease, _) in
            leases.iter().zip(&answers).filter(|(_, answer)| matches!(answer, Ok(Owned::No)))
        {
            // Some servers may hold it still, and nobody would release what is lost.
            let release = Release { key: lease.key.clone(), token: lease.token, keep_until: None };
            self.give_back(release).finish();
        }
        answers
    }

    /// Has all servers asked to give a lock back, each on the line of the question that it has not answered,
    /// if there is one.
    fn give_back(&self, release: Release) -> Replies {
        let channel = hints::channel(&release.key);
        let back = Arc::new(Return { release, channel });
        let lines = self.attempts.give_back(&back, self.nodes.len());
        Crowd::new(self.all().zip(lines).map(|((index, node), line)| {
            let back = Arc::clone(&back);
            async move { (index, node.give_back(back, line).await.map(|owned| vec![Ok(owned)])) }
        }))
    }

    async fn release_all(&self, release: &Release) -> Result<Owned, StoreError> {
        current_runtime()?;
        let replies = self.give_back(release.clone());
        let mut answers = self.count(replies, 1, self.timeout * 2, "released").await;
        answers.pop().unwrap_or_else(|| Err(unexpected(&Value::Nil)))
    }
}

impl Store for Redlock {
    fn name(&self) -> &str {
        &self.name
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(self.take(claim))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Owned, StoreError>>> {
        Box::pin(self.renew_all(leases))
    }

    fn release<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Owned, StoreError>> {
        Box::pin(self.release_all(release))
    }
}
