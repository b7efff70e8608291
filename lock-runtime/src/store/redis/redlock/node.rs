//! [`Node`]: one of the servers that vote, and the requests to it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::ConnectionInfo;
use tokio::sync::OnceCell;

use super::eligibility::{Identity, LastServer, Voters};
use super::error;
use super::pending::{Attempt, ReleaseOrder};
use super::quorum::quorum;
use crate::fence::Fence;
use crate::store::redis::client::connection::{Connection, PerConnection};
use crate::store::redis::client::connector::{Config, Target};
use crate::store::redis::client::error::ClientError;
use crate::store::redis::client::handshake::{self, Role};
use crate::store::redis::client::pool::Pool;
use crate::store::redis::client::script::{Call, Script, millis};
use crate::store::redis::client::url;
use crate::store::redis::fences::Fences;
use crate::store::redis::leases::{self, RenewReply, release_after};
use crate::store::redis::reply::{Acquisition, owned};
use crate::store::{Owned, Release, Renewal, StoreError};
use crate::sync::lock;

static ACQUIRE: Script = Script::new(concat!(
    include_str!("../lua/holder.lua"),
    include_str!("../lua/grant.lua"),
    include_str!("lua/acquire.lua"),
));
static CONFIRM: Script =
    Script::new(concat!(include_str!("../lua/holder.lua"), include_str!("lua/confirm.lua")));
static RELEASE: Script =
    Script::new(concat!(include_str!("../lua/holder.lua"), include_str!("lua/release.lua")));

/// All servers that vote.
#[derive(Debug, Clone)]
pub(super) struct Nodes {
    all: Arc<[Arc<Node>]>,
    pub(super) timeout: Duration,
}

impl Nodes {
    pub(super) fn new(servers: Vec<ConnectionInfo>, config: Config) -> Self {
        let (timeout, config) = (config.timeout, Arc::new(config));
        let all = servers.into_iter().map(|info| Arc::new(Node::new(info, &config))).collect();
        Self { all, timeout }
    }

    /// All servers with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, Arc<Node>)> + use<> {
        let all = Arc::clone(&self.all);
        (0..all.len()).map(move |index| (index, Arc::clone(&all[index])))
    }

    pub(super) fn get(&self, index: usize) -> &Arc<Node> {
        &self.all[index]
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many servers are a majority.
    pub(super) fn quorum(&self) -> usize {
        quorum(self.len())
    }

    /// How long a server may take to reply before a round goes on without it.
    pub(super) fn patience(&self, ttl: Duration) -> Duration {
        self.timeout.min((ttl / 10).max(Duration::from_millis(50)))
    }

    /// The error when too few servers have done something, with the causes of the others.
    pub(super) fn too_few(&self, done: String, causes: &[(usize, ClientError)]) -> StoreError {
        let named = causes.iter().map(|(index, error)| (&*self.all[*index].name, error));
        error::too_few(done, self.len(), &named.collect::<Vec<_>>())
    }
}

/// An independent server.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: Arc<str>,
    pool: Pool,
    /// The server process at the other end of each connection, once it has identified itself.
    identities: PerConnection<OnceCell<Identity>>,
    fences: PerConnection<Mutex<Fences>>,
    /// The server process that replied last.
    last: Mutex<Option<LastServer>>,
}

impl Node {
    fn new(info: ConnectionInfo, config: &Arc<Config>) -> Self {
        let name = url::name(&info).into();
        let pool = Pool::new(Target::Fixed(info.into()), Arc::clone(config));
        let (identities, fences, last) = Default::default();
        Self { name, pool, identities, fences, last }
    }

    /// Subscribes to a channel, if push messages can arrive.
    pub(super) async fn subscribe(&self, channel: &str) {
        if let Ok(connection) = self.pool.connection().await {
            connection.subscribe_if_possible(channel).await;
        }
    }

    /// Unsubscribes from a channel.
    pub(super) async fn unsubscribe(&self, channel: &str) {
        if let Ok(connection) = self.pool.connection().await {
            connection.unsubscribe_if_possible(channel).await;
        }
    }

    /// Checks the server, and identifies it.
    pub(super) async fn verify(self: Arc<Self>) -> Result<Identity, ClientError> {
        let connection = self.pool.connection().await?;
        handshake::verify(&connection, &self.name, Role::Standalone).await?;
        self.identity(&connection).await
    }

    /// Connects to the server, and identifies it.
    pub(super) async fn start(self: Arc<Self>) -> Result<Identity, ClientError> {
        self.identity(&self.pool.connection().await?).await
    }

    /// The server process at the other end of a connection.
    async fn identity(&self, connection: &Connection) -> Result<Identity, ClientError> {
        let cell = self.identities.of(connection, OnceCell::new);
        let query = async || {
            let mut identity = Identity::query(connection).await?;
            identity.compare(&mut lock(&self.last));
            Ok::<_, ClientError>(identity)
        };
        let identity = cell.get_or_try_init(query).await?.clone();
        if let Some(last) = &mut *lock(&self.last) {
            last.record(&identity);
        }
        Ok(identity)
    }

    /// Requests the vote of the server. If the attempt is abandoned in the meantime, the caller
    /// releases a vote that still arrives.
    pub(super) async fn acquire(
        self: Arc<Self>,
        index: usize,
        attempt: Arc<Attempt>,
    ) -> Result<(Acquisition, Connection), ClientError> {
        let connection = self.pool.connection().await?;
        let identity = self.identity(&connection).await?;
        attempt.voters.admit(&self.name, &identity)?;
        identity.check_age(attempt.ttl)?;
        if !attempt.send(index, &connection) {
            return Err(ClientError::not_executed("the lock is no longer wanted"));
        }
        let fences = self.fences.of(&connection, || Mutex::new(Fences::new(Some(0))));
        let (ttl, [seen, _]) = (millis(attempt.ttl), lock(&fences).script_args(0));
        let args = [attempt.token.as_bytes(), ttl.as_bytes(), seen.as_bytes()];
        let call = Call { keys: &attempt.keys.without_queue(), args: &args };
        let reply = ACQUIRE.call(&connection, call).await;
        let reply = reply.and_then(|reply| Acquisition::read(&reply));
        if !reply.as_ref().is_err_and(ClientError::may_have_run) {
            attempt.replied(index);
        }
        if let Ok(Acquisition::Granted(number, _)) = &reply {
            lock(&fences).record(*number, None);
        }
        Ok((reply?, connection))
    }

    /// Requests the confirmation of a vote, on the connection that carried it.
    pub(super) async fn confirm(
        self: Arc<Self>,
        connection: Connection,
        attempt: Arc<Attempt>,
        fence: Fence,
    ) -> Result<Owned, ClientError> {
        let number = fence.to_string();
        let args = [attempt.token.as_bytes(), number.as_bytes()];
        let call = Call { keys: &attempt.keys.without_queue(), args: &args };
        let owned = owned(&CONFIRM.call(&connection, call).await?)?;
        if owned == Owned::Yes {
            let fences = self.fences.of(&connection, || Mutex::new(Fences::new(Some(0))));
            lock(&fences).record(fence, None);
        }
        Ok(owned)
    }

    /// Renews leases, and returns the result of each. Renewals by a server that is not eligible do
    /// not count.
    pub(super) async fn renew(
        self: Arc<Self>,
        leases: Arc<[Renewal]>,
        voters: Arc<Voters>,
    ) -> Result<Vec<RenewReply>, ClientError> {
        let connection = self.pool.connection().await?;
        let identity = self.identity(&connection).await?;
        voters.admit(&self.name, &identity)?;
        let replies = leases::renew_all(&connection, &leases).await?;
        let eligible = |(reply, lease): (RenewReply, &Renewal)| {
            let owned = reply?;
            if owned == Owned::Yes {
                identity.check_age(lease.ttl)?;
            }
            Ok(owned)
        };
        Ok(replies.into_iter().zip(&*leases).map(eligible).collect())
    }

    /// Releases the lock on this server, on the connection that carries a request without a reply,
    /// if there is one: see [`release_after`].
    pub(super) async fn release(
        self: Arc<Self>,
        order: Arc<ReleaseOrder>,
        carrier: Option<Connection>,
    ) -> Result<Owned, ClientError> {
        let request = |connection| release(connection, &order);
        release_after(carrier, || self.pool.connection(), request).await
    }
}

async fn release(connection: Connection, order: &ReleaseOrder) -> Result<Owned, ClientError> {
    let Release { key, token, .. } = &order.release;
    let keep = order.release.keep().map_or_else(String::new, millis);
    let args = [token.as_bytes(), keep.as_bytes(), order.channel.as_bytes()];
    owned(&RELEASE.call(&connection, Call { keys: &[key.as_str()], args: &args }).await?)
}
