//! [`QueueStore`]: the protocol for one server that decides alone, with a fair queue of waiters.

mod pending;
pub(crate) mod waiter;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout;

use self::pending::Pending;
use self::waiter::{Message, Waiter};
use super::client::connection::{Connection, PerConnection};
use super::client::connector::Config;
use super::client::error::ClientError;
use super::client::pubsub::PushHandler;
use super::client::script::{Call, Script, millis};
use super::fences::Fences;
use super::keys::Keys;
use super::leases::{self, RenewReply, release_after};
use super::reply::{Acquisition, Queued, owned};
use super::topology::router::Router;
use crate::fence::Fence;
use crate::key::Key;
use crate::store::{
    Acquired, BoxFuture, Claim, Owned, Release, Renewal, Renewed, Store, StoreError,
};
use crate::sync::{Jitter, lock};

static ACQUIRE: Script = Script::new(lua::ACQUIRE);
static RELEASE: Script = Script::new(lua::RELEASE);

/// The code of the scripts.
#[allow(unreachable_pub, clippy::must_use_candidate, reason = "public for the model only")]
pub(crate) mod lua {
    /// Takes a lock, or joins its queue.
    pub const ACQUIRE: &str = concat!(
        include_str!("lua/holder.lua"),
        include_str!("lua/grant.lua"),
        include_str!("queue/lua/acquire.lua"),
        include_str!("queue/lua/queue.lua"),
        include_str!("queue/lua/enqueue.lua"),
    );
    /// Releases a lock, or leaves its queue.
    pub const RELEASE: &str = concat!(
        include_str!("lua/holder.lua"),
        include_str!("queue/lua/release.lua"),
        include_str!("lua/grant.lua"),
        include_str!("queue/lua/queue.lua"),
        include_str!("queue/lua/hand_over.lua"),
    );
}

/// Keeps each lock in one server, as a string with an expiry: the token of its holder.
#[derive(Debug)]
pub(super) struct QueueStore {
    name: String,
    router: Router,
    pending: Arc<Pending>,
    /// Whether a message proves a grant.
    trusts_messages: bool,
    fences: PerConnection<std::sync::Mutex<Fences>>,
}

impl QueueStore {
    /// Creates the store with this name, on the servers that `router` builds from a configuration.
    ///
    /// The nodes of a cluster forward messages to each other, including a message to a waiter that
    /// the sender then takes for dead, because the waiter listens on another node. Therefore, no
    /// message in a cluster proves a grant. Sharded messages stay on their node, but when a slot
    /// moves, the node ends the subscription unasked, and the `redis` crate takes this for the
    /// reply to a command. With replicas, a hand-over has to be acknowledged first.
    pub(super) fn new(name: String, config: Config, router: impl FnOnce(Config) -> Router) -> Self {
        let pending = Arc::<Pending>::default();
        let is_asynchronous = config.replication.is_asynchronous();
        let router = router(Config { on_push: deliver_to(&pending), ..config });
        let trusts_messages = is_asynchronous && !router.is_cluster();
        Self { name, router, pending, trusts_messages, fences: PerConnection::default() }
    }

    /// Checks all servers.
    pub(super) async fn verify(&self) -> Result<(), StoreError> {
        Ok(self.router.verify(&self.name).await?)
    }

    /// Sends requests until the lock is granted or the wait is over.
    async fn take(&self, claim: &Claim) -> Result<Acquired, ClientError> {
        let Claim { key, token, ttl, wait_until, .. } = claim;
        let jitter = Jitter::new(token.seed());
        let mut waiter =
            Waiter::new(*ttl, *wait_until, self.trusts_messages, Instant::now(), jitter);
        let mut expects_grant = true;
        loop {
            let connection = self.router.connection(key.as_str()).await?;
            let interval = waiter.may_queue(Instant::now()).then(|| waiter.poll_interval());
            let sent = Instant::now();
            let request = |connection| self.request(connection, claim, interval, expects_grant);
            let (reply, connection) = self.router.send(key.as_str(), connection, request).await?;
            let queued = match reply {
                Acquisition::Granted(fence, _) => return Ok(Acquired::Granted { sent, fence }),
                Acquisition::Busy { holder, free_in } => {
                    return Ok(Acquired::Busy { holder, expires_in: free_in });
                }
                Acquisition::NotALock { kind } => return Ok(Acquired::NotALock { kind }),
                Acquisition::Queued(queued) => queued,
            };
            claim.note_answer();
            waiter.queued(sent, queued, Instant::now());
            expects_grant = match self.wait_for_hand_over(claim, &mut waiter, &connection).await {
                HandOver::Proved { sent, fence } => return Ok(Acquired::Granted { sent, fence }),
                HandOver::Announced => true,
                HandOver::None => false,
            };
        }
    }

    /// Waits for the hand-over until the next poll is due.
    async fn wait_for_hand_over(
        &self,
        claim: &Claim,
        waiter: &mut Waiter,
        connection: &Connection,
    ) -> HandOver {
        let mut hand_over = HandOver::None;
        while let Some(message) =
            self.pending.next_message(claim.token, connection, waiter.poll_at()).await
        {
            if let Some((sent, fence)) = waiter.receive(message, Instant::now()) {
                self.pending.end(claim.token);
                return HandOver::Proved { sent, fence };
            }
            match message {
                Message::Held(_) => hand_over = HandOver::Announced,
                Message::Free(_) => {}
                Message::Disconnected => return HandOver::None,
            }
        }
        hand_over
    }

    /// Sends one request for the lock. A request with a poll interval may join the queue. If a grant is
    /// expected, and no `WAIT` is pending, `WAIT` is sent together with the request.
    async fn request(
        &self,
        connection: Connection,
        claim: &Claim,
        poll_interval: Option<Duration>,
        expects_grant: bool,
    ) -> Result<(Acquisition, Connection), ClientError> {
        let (interval, inbox) = match poll_interval {
            Some(interval) => (millis(interval), connection.inbox().await?),
            None => (String::new(), ""),
        };
        let (keys, ttl, [seen, epoch]) =
            (self.keys(&claim.key), millis(claim.ttl), self.fence_args(&connection));
        let [ttl, interval, inbox, seen, epoch] =
            [&ttl, &interval, inbox, &seen, &epoch].map(str::as_bytes);
        let call = Call {
            keys: &keys.all(),
            args: &[claim.token.as_bytes(), ttl, interval, inbox, seen, epoch],
        };
        self.pending.sent(claim.token, &connection);
        let reply = self.call_acquire(&connection, call, expects_grant).await;
        match &reply {
            Ok(Acquisition::Queued(_)) => self.pending.queued(claim.token),
            Err(error) if error.may_have_run() => {}
            _ => drop(self.pending.end(claim.token)),
        }
        let reply = reply?;
        self.record_fence(&connection, &reply);
        Ok((reply, connection))
    }

    /// Calls the acquire script. A grant counts once it is acknowledged.
    async fn call_acquire(
        &self,
        connection: &Connection,
        call: Call<'_>,
        expects_grant: bool,
    ) -> Result<Acquisition, ClientError> {
        let reserved = if expects_grant { connection.reserve_wait() } else { None };
        let (reply, acknowledgement) = if reserved.is_some() {
            let written = ACQUIRE.write(connection, call).await?;
            (Acquisition::read(&written.reply)?, Some(written.acknowledgement))
        } else {
            (Acquisition::read(&ACQUIRE.call(connection, call).await?)?, None)
        };
        drop(reserved);
        if matches!(reply, Acquisition::Granted(..)) {
            match acknowledgement {
                Some(acknowledgement) => acknowledgement.check()?,
                None => connection.acknowledged().await.check()?,
            }
        }
        Ok(reply)
    }

    /// Records the fence in a reply, for later requests on the same connection.
    fn record_fence(&self, connection: &Connection, reply: &Acquisition) {
        let (fence, epoch) = match reply {
            Acquisition::Granted(fence, epoch) => (*fence, *epoch),
            Acquisition::Queued(Queued { last_fence, .. }) => (*last_fence, None),
            Acquisition::Busy { .. } | Acquisition::NotALock { .. } => return,
        };
        lock(&self.fences(connection)).record(fence, epoch);
    }

    /// Renews the leases of one server with one request, and each lease that a cluster redirects
    /// with another.
    async fn renew_all(&self, leases: &[Renewal]) -> Result<Vec<RenewReply>, ClientError> {
        let Some(first) = leases.first() else { return Ok(Vec::new()) };
        let connection = self.router.connection(first.key.as_str()).await?;
        let replies = leases::renew_all(&connection, leases).await?;
        let results = replies.into_iter().zip(leases).map(|(reply, lease)| {
            let connection = &connection;
            async move {
                let error = match reply {
                    Ok(owned) => return Ok(owned),
                    Err(error) => error,
                };
                let renew = |connection| async move { leases::renew(&connection, lease).await };
                let again = self.router.resend(lease.key.as_str(), connection, error, renew);
                // Limited, because the results of the other leases wait for it.
                let in_time = timeout(lease.patience, again).await;
                in_time.unwrap_or_else(|_| Err(ClientError::no_reply()))
            }
        });
        Ok(join_all(results).await)
    }

    async fn release_on(
        &self,
        connection: Connection,
        release: &Release,
    ) -> Result<Owned, ClientError> {
        let keys = self.keys(&release.key);
        let request = |connection: Connection| {
            let keys = &keys;
            async move {
                let keep = release.keep().map_or_else(String::new, millis);
                let [seen, epoch] = self.fence_args(&connection);
                let [keep, seen, epoch] = [&keep, &seen, &epoch].map(String::as_bytes);
                let args = [release.token.as_bytes(), keep, seen, epoch];
                let call = Call { keys: &keys.all(), args: &args };
                owned(&RELEASE.call(&connection, call).await?)
            }
        };
        self.router.send(release.key.as_str(), connection, request).await
    }

    fn keys(&self, key: &Key) -> Keys {
        if self.router.is_cluster() { Keys::in_cluster(key) } else { Keys::of(key) }
    }

    fn fences(&self, connection: &Connection) -> Arc<std::sync::Mutex<Fences>> {
        let epoch = (!self.router.is_cluster()).then(|| connection.epoch());
        self.fences.of(connection, || std::sync::Mutex::new(Fences::new(epoch)))
    }

    fn fence_args(&self, connection: &Connection) -> [String; 2] {
        lock(&self.fences(connection)).script_args(self.router.version())
    }
}

/// What a waiter has learned between two polls.
enum HandOver {
    /// Nothing.
    None,
    /// The lock was handed over, as the next poll has to confirm.
    Announced,
    /// The lock was handed over.
    Proved { sent: Instant, fence: Fence },
}

/// Delivers push messages to the pending acquires. All channels of these connections are inboxes.
fn deliver_to(pending: &Arc<Pending>) -> Arc<PushHandler> {
    let pending = Arc::downgrade(pending);
    Arc::new(move |_channel, payload| {
        if let Some(pending) = pending.upgrade() {
            pending.deliver(payload);
        }
    })
}

impl Store for QueueStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn shard(&self, key: &Key) -> u64 {
        self.router.shard(key.as_str())
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.router.start().await) })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(async { Ok(self.take(claim).await?) })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Renewed>> {
        Box::pin(async {
            let all_failed = |error: ClientError| vec![Err(error); leases.len()];
            let replies = self.renew_all(leases).await.unwrap_or_else(all_failed);
            replies.into_iter().map(|reply| Ok(reply?)).collect()
        })
    }

    fn release<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Owned, StoreError>> {
        Box::pin(async {
            let carrier = self.pending.end(release.token);
            let connection = || self.router.connection(release.key.as_str());
            Ok(release_after(carrier, connection, |on| self.release_on(on, release)).await?)
        })
    }
}
