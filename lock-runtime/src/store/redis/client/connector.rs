//! [`Connector`]: how to connect to one server.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis::aio::SendError;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisError,
};
use tokio::sync::watch;

use super::connection::{Connection, Properties, State};
use super::error::{self, ClientError};
use super::handshake;
use super::pubsub::{self, PushHandler};
use super::replication::Replication;

/// The configuration that all connections of a manager share.
pub(crate) struct Config {
    /// How long connecting, or waiting for a reply, may take.
    pub(crate) timeout: Duration,
    pub(crate) replication: Replication,
    /// The name of the connections in `CLIENT LIST`.
    pub(crate) client_name: String,
    /// Receives the push messages of all connections.
    pub(crate) on_push: Arc<PushHandler>,
    /// The newest failover epoch that the sentinels have reported; constant without sentinels.
    pub(crate) newest_epoch: watch::Receiver<u64>,
    /// Whether it was logged that push messages do not arrive.
    pub(crate) warned_no_push: Arc<AtomicBool>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Finds the server anew for each connection.
pub(crate) trait Resolver: Send + Sync {
    /// The settings of the server. Its address may differ.
    fn settings(&self) -> &ConnectionInfo;

    /// Finds how to connect to the server now, and its failover epoch.
    fn resolve(&self) -> Resolving<'_>;
}

/// The future of [`Resolver::resolve`].
pub(crate) type Resolving<'a> =
    Pin<Box<dyn Future<Output = Result<(ConnectionInfo, u64), ClientError>> + Send + 'a>>;

/// Where a server is.
pub(crate) enum Target {
    /// Always at the same address.
    Fixed(Box<ConnectionInfo>),
    /// Wherever the resolver finds it; the server has to be a master.
    Resolved(Arc<dyn Resolver>),
}

/// Connects to a server.
pub(crate) struct Connector {
    target: Target,
    config: Arc<Config>,
    /// Whether to use RESP3; cleared when the server turns out not to support it.
    resp3: AtomicBool,
}

/// Omits the settings, which include the password.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Connector {
    pub(crate) fn new(target: Target, config: Arc<Config>) -> Self {
        let connector = Self { target, config, resp3: AtomicBool::new(false) };
        let resp3 = connector.settings().redis_settings().protocol().supports_resp3();
        connector.resp3.store(resp3, Ordering::Relaxed);
        connector
    }

    fn settings(&self) -> &ConnectionInfo {
        match &self.target {
            Target::Fixed(info) => info,
            Target::Resolved(resolver) => resolver.settings(),
        }
    }

    /// Connects to the server.
    pub(crate) async fn connect(&self) -> Result<Connection, ClientError> {
        match &self.target {
            Target::Fixed(info) => self.connect_to(info, 0).await,
            Target::Resolved(resolver) => {
                let (info, epoch) = resolver.resolve().await?;
                let connection = self.connect_to(&info, epoch).await?;
                handshake::require_master(&connection, &info).await.map(|()| connection)
            }
        }
    }

    async fn connect_to(
        &self,
        info: &ConnectionInfo,
        epoch: u64,
    ) -> Result<Connection, ClientError> {
        if self.resp3.load(Ordering::Relaxed) {
            match self.connect_with(ProtocolVersion::RESP3, info, epoch).await {
                Err(error) if error::is_resp3_unknown(&error) => {
                    tracing::info!("the server does not support RESP3, using RESP2");
                    self.resp3.store(false, Ordering::Relaxed);
                }
                done => return done.map_err(|error| ClientError::connecting(&error, info)),
            }
        }
        let connected = self.connect_with(ProtocolVersion::RESP2, info, epoch).await;
        connected.map_err(|error| ClientError::connecting(&error, info))
    }

    async fn connect_with(
        &self,
        protocol: ProtocolVersion,
        info: &ConnectionInfo,
        epoch: u64,
    ) -> Result<Connection, RedisError> {
        let Config { timeout, replication, client_name, on_push, newest_epoch, warned_no_push } =
            &*self.config;
        let resp3 = protocol.supports_resp3();
        let state = Arc::new(State::new(Properties {
            address: info.addr().to_string(),
            epoch,
            newest_epoch: newest_epoch.clone(),
            replication: *replication,
            client_name: client_name.clone(),
            no_push: (!resp3).then(|| "the connection uses RESP2".to_owned()),
            warned_no_push: Arc::clone(warned_no_push),
        }));
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(*timeout))
            .set_response_timeout(Some(*timeout));
        if resp3 {
            let receiver = push_receiver(Arc::clone(&state), Arc::clone(on_push));
            config = config.set_push_sender(receiver);
        }
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let redis = info.redis_settings().clone().set_protocol(protocol);
        let redis = redis.set_lib_name("lock-runtime", env!("CARGO_PKG_VERSION"));
        let client = Client::open(info.clone().set_tcp_settings(tcp).set_redis_settings(redis))?;
        let multiplexed = client.get_multiplexed_async_connection_with_config(&config).await?;
        let name = redis::cmd("CLIENT").arg("SETNAME").arg(client_name).take();
        let sent = Instant::now();
        // The name is only for readers of `CLIENT LIST`, so a refusal does not matter.
        let _ = multiplexed.clone().send_packed_command(&name).await;
        let connection = Connection::new(multiplexed, state);
        connection.set_pace(sent.elapsed());
        Ok(connection)
    }
}

/// Receives the push messages of one connection, and the report of its end.
fn push_receiver(
    state: Arc<State>,
    on_push: Arc<PushHandler>,
) -> impl Fn(PushInfo) -> Result<(), SendError> {
    move |push| {
        if push.kind == PushKind::Disconnection {
            state.disconnect();
        } else if let Some((channel, payload)) = pubsub::message(&push) {
            on_push(channel, payload);
        }
        Ok(())
    }
}
