//! [`Redlock`]: the protocol for several independent servers, of which a majority has to grant each
//! lock.
//!
//! A request to each server takes the lock there, and its reply carries the next number of the
//! server's counter. A second request to the servers that granted the lock confirms a fence above
//! the numbers of a majority. The lock is held once a majority has confirmed.
//!
//! A server that may have lost locks in a restart does not vote until it has been up for longer
//! than the ttl. This suffices if all clients of a lock use the same ttl for it.

mod acquire;
mod backoff;
mod eligibility;
mod error;
mod node;
mod notify;
mod pending;
pub(crate) mod quorum;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ConnectionInfo, Value};
use tokio::time::{sleep_until, timeout_at};

use self::acquire::{Acquire, Defeat};
use self::eligibility::Voters;
use self::node::Nodes;
use self::notify::Channels;
use self::pending::{Pending, ReleaseOrder};
use self::quorum::ReplyCount;
use super::client::connector::Config;
use super::client::error::ClientError;
use super::client::fan_out::FanOut;
use super::client::pool::current_runtime;
use super::client::pubsub::PushHandler;
use super::client::url;
use super::leases::RenewReply;
use crate::store::{
    Acquired, BoxFuture, Claim, Owned, Release, Renewal, Renewed, Store, StoreError,
};

/// With fewer servers, a majority tolerates no failure.
const MIN_SERVERS: usize = 3;

/// Keeps locks in a majority of several Redis servers.
#[derive(Debug)]
pub(super) struct Redlock {
    name: String,
    nodes: Nodes,
    pending: Arc<Pending>,
    channels: Arc<Channels>,
}

/// The results for several leases, from each server.
type Replies = FanOut<(usize, Result<Vec<RenewReply>, ClientError>)>;

impl Redlock {
    /// The store for these servers, or why they cannot be used.
    pub(super) fn new(servers: Vec<ConnectionInfo>, config: Config) -> Result<Self, String> {
        let count = servers.len();
        if count < MIN_SERVERS || count.is_multiple_of(2) {
            return Err(format!(
                "redlock:// needs an odd number of at least {MIN_SERVERS} servers, and there are {count}; \
                 an even number tolerates no more failures than one server fewer"
            ));
        }
        let mut hosts = HashSet::new();
        if let Some(twice) = servers.iter().find(|info| !hosts.insert(info.addr().to_string())) {
            let name = url::name(twice);
            return Err(format!("{name} is named twice; each server has one vote"));
        }
        let name = url::names("redlock", &servers);
        let channels = Arc::<Channels>::default();
        let nodes = Nodes::new(servers, Config { on_push: deliver_to(&channels), ..config });
        Ok(Self { name, nodes, pending: Arc::default(), channels })
    }

    /// Checks that a majority of the servers replies, and that no two addresses lead to the same
    /// server.
    pub(super) async fn verify(&self) -> Result<(), StoreError> {
        current_runtime()?;
        let nodes = self.nodes.iter();
        let mut replies =
            FanOut::new(nodes.map(|(index, node)| async move { (index, node.verify().await) }));
        let (mut causes, voters) = (Vec::new(), Voters::default());
        while let Some((index, verified)) = replies.next().await {
            let name = &self.nodes.get(index).name;
            match verified {
                Ok(identity) => voters
                    .admit(name, &identity)
                    .map_err(|error| ClientError::refused(format!("{name} {error}")))?,
                Err(error) => causes.push((index, error)),
            }
        }
        let usable = self.nodes.len() - causes.len();
        if usable < self.nodes.quorum() {
            let done = format!("{usable} of {} servers replied", self.nodes.len());
            return Err(self.nodes.too_few(done, &causes));
        }
        for (index, error) in causes {
            let server = &*self.nodes.get(index).name;
            tracing::warn!(server, %error, "one of the redlock servers cannot be used");
        }
        Ok(())
    }

    /// Makes one attempt, and backs off if the lock is busy and there is time for another attempt.
    async fn take(&self, claim: &Claim) -> Result<Acquired, StoreError> {
        current_runtime()?;
        let Claim { key, token, ttl, wait_until, attempt, .. } = claim;
        let listen = || self.channels.listen(&self.nodes, key);
        let waits = wait_until.is_none_or(|until| Instant::now() < until);
        let released = (waits && *attempt > 0).then(listen);
        let busy = match Acquire::begin(&self.nodes, &self.pending, claim).run().await {
            Ok((sent, fence)) => return Ok(Acquired::Granted { sent, fence }),
            Err(Defeat::NotALock { kind }) => return Ok(Acquired::NotALock { kind }),
            Err(Defeat::Failed(error)) => return Err(error),
            Err(Defeat::Busy((holder, expires_in))) => Acquired::Busy { holder, expires_in },
        };
        if !waits {
            return Ok(busy);
        }
        let released = released.unwrap_or_else(listen);
        let next = Instant::now() + backoff::after(*attempt, *ttl, token.seed());
        let until = wait_until.map_or(next, |until| until.min(next));
        if timeout_at(until.into(), released).await.is_ok() {
            let soon = Instant::now() + backoff::after_notification(token.seed());
            sleep_until(until.min(soon).into()).await;
        }
        Ok(Acquired::Again)
    }

    /// Counts the replies about some leases, until all are decided or the limit is reached.
    async fn count(
        &self,
        mut replies: Replies,
        leases: usize,
        limit: Duration,
        done: &str,
    ) -> Vec<Renewed> {
        let limit = Instant::now() + limit;
        let count = self.nodes.len();
        let mut missing: Vec<_> = (0..count).collect();
        let mut counts = vec![(ReplyCount::default(), Vec::new()); leases];
        while counts.iter().any(|(replies, _)| replies.decision(count).is_none()) {
            let reply = timeout_at(limit.into(), replies.next()).await;
            let Ok(Some((index, reply))) = reply else { break };
            missing.retain(|node| *node != index);
            let reply = reply.unwrap_or_else(|error| vec![Err(error); leases]);
            for ((replies, causes), result) in counts.iter_mut().zip(reply) {
                match result {
                    Ok(owned) => replies.add(owned),
                    Err(error) => causes.push((index, error)),
                }
            }
        }
        replies.detach();
        let decided = |(replies, mut causes): (ReplyCount, Vec<_>)| {
            replies.decision(count).ok_or_else(|| {
                causes.extend(missing.iter().map(|node| (*node, ClientError::no_reply())));
                let done = format!("{} of {count} servers {done} it", replies.yes);
                self.nodes.too_few(done, &causes)
            })
        };
        counts.into_iter().map(decided).collect()
    }

    async fn renew_all(&self, leases: &[Renewal]) -> Vec<Renewed> {
        if let Err(error) = current_runtime() {
            return leases.iter().map(|_| Err(error.clone().into())).collect();
        }
        let shared: (Arc<[Renewal]>, Arc<Voters>) = (leases.into(), Arc::default());
        let replies = FanOut::new(self.nodes.iter().map(|(index, node)| {
            let (leases, voters) = shared.clone();
            async move { (index, node.renew(leases, voters).await) }
        }));
        let results = self.count(replies, leases.len(), self.nodes.timeout, "renewed").await;
        let lost =
            leases.iter().zip(&results).filter(|(_, result)| matches!(result, Ok(Owned::No)));
        for (lease, _) in lost {
            // Some servers may still hold the lock, and a lost lock is not released by its holder.
            let release = Release { key: lease.key.clone(), token: lease.token, keep_until: None };
            self.release_everywhere(release).detach();
        }
        results
    }

    /// Releases a lock on all servers, on the connection that carries a request without a reply, if
    /// there is one.
    fn release_everywhere(&self, release: Release) -> Replies {
        let channel = notify::channel(&release.key);
        let order = Arc::new(ReleaseOrder { release, channel });
        let carriers = self.pending.release(&order, self.nodes.len());
        FanOut::new(self.nodes.iter().zip(carriers).map(|((index, node), carrier)| {
            let order = Arc::clone(&order);
            async move { (index, node.release(order, carrier).await.map(|owned| vec![Ok(owned)])) }
        }))
    }

    async fn release_all(&self, release: &Release) -> Result<Owned, StoreError> {
        current_runtime()?;
        let replies = self.release_everywhere(release.clone());
        let mut results = self.count(replies, 1, self.nodes.timeout * 2, "released").await;
        results.pop().unwrap_or_else(|| Err(ClientError::unexpected(&Value::Nil).into()))
    }
}

/// Delivers push messages to the waiters. All channels of these connections announce released
/// locks.
fn deliver_to(channels: &Arc<Channels>) -> Arc<PushHandler> {
    let channels = Arc::downgrade(channels);
    Arc::new(move |channel, _payload| {
        if let Some(channels) = channels.upgrade() {
            channels.deliver(channel);
        }
    })
}

impl Store for Redlock {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let nodes = self.nodes.iter();
            FanOut::new(nodes.map(|(_, node)| async move { drop(node.start().await) })).detach();
        })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(self.take(claim))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Renewed>> {
        Box::pin(self.renew_all(leases))
    }

    fn release<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Owned, StoreError>> {
        Box::pin(self.release_all(release))
    }
}
