//! [`Router`]: finds the server that keeps a key, and follows redirections.

use std::future::Future;
use std::sync::Arc;

use redis::ConnectionInfo;
use tokio::sync::watch;

use super::cluster::Cluster;
use super::sentinel::Sentinels;
use crate::store::redis::client::connection::Connection;
use crate::store::redis::client::connector::{Config, Target};
use crate::store::redis::client::error::ClientError;
use crate::store::redis::client::handshake::{self, Role};
use crate::store::redis::client::pool::Pool;
use crate::store::redis::client::url::SentinelSettings;

/// How many redirections a request follows before it fails.
const MAX_REDIRECTIONS: u32 = 50;

/// The servers of one manager.
#[derive(Debug)]
pub(crate) enum Router {
    /// One server.
    Server(Pool),
    /// The master of a service.
    Sentinel(Pool, Arc<Sentinels>),
    /// The nodes of a cluster, each of which keeps the keys of its slots.
    Cluster(Cluster),
}

impl Router {
    pub(crate) fn server(info: ConnectionInfo, config: Config) -> Self {
        Self::Server(Pool::new(Target::Fixed(info.into()), Arc::new(config)))
    }

    /// The connections become stale when `newest_epoch` grows.
    pub(crate) fn sentinel(
        settings: SentinelSettings,
        config: Config,
        newest_epoch: watch::Sender<u64>,
    ) -> Self {
        let sentinels = Arc::new(Sentinels::new(settings, config.timeout, newest_epoch));
        let target = Target::Resolved(Arc::clone(&sentinels) as _);
        Self::Sentinel(Pool::new(target, Arc::new(config)), sentinels)
    }

    pub(crate) fn cluster(seeds: Vec<ConnectionInfo>, config: Config) -> Self {
        Self::Cluster(Cluster::new(seeds, Arc::new(config)))
    }

    /// Returns a connection to the server that keeps `key`.
    pub(crate) async fn connection(&self, key: &str) -> Result<Connection, ClientError> {
        match self {
            Self::Server(pool) | Self::Sentinel(pool, _) => pool.connection().await,
            Self::Cluster(cluster) => cluster.connection(key).await,
        }
    }

    /// Sends a request about `key`, and sends it again where a cluster redirects it.
    pub(crate) async fn send<T, F>(
        &self,
        key: &str,
        mut connection: Connection,
        request: impl Fn(Connection) -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut redirections = 0;
        loop {
            let error = match request(connection.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            redirections += 1;
            match self.redirected(key, &connection, &error).await? {
                Some(other) if redirections <= MAX_REDIRECTIONS => connection = other,
                _ => return Err(self.with_address(&connection, error)),
            }
        }
    }

    /// Sends a request about `key` where a cluster redirects it, after `error` on `connection`.
    /// Returns any other error.
    pub(crate) async fn resend<T, F>(
        &self,
        key: &str,
        connection: &Connection,
        error: ClientError,
        request: impl Fn(Connection) -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        match self.redirected(key, connection, &error).await? {
            Some(other) => self.send(key, other, request).await,
            None => Err(error),
        }
    }

    /// Returns the connection to which an error on `connection` redirects a request about `key`, if
    /// it does.
    async fn redirected(
        &self,
        key: &str,
        connection: &Connection,
        error: &ClientError,
    ) -> Result<Option<Connection>, ClientError> {
        match self {
            Self::Server(_) | Self::Sentinel(..) => Ok(None),
            Self::Cluster(cluster) => cluster.redirected(key, connection, error).await,
        }
    }

    /// Adds the address of the server to an error, where there are several servers.
    fn with_address(&self, connection: &Connection, error: ClientError) -> ClientError {
        match self {
            Self::Server(_) => error,
            Self::Sentinel(..) | Self::Cluster(_) => error.at(connection.address()),
        }
    }

    /// Checks all servers, for the store with this name.
    pub(crate) async fn verify(&self, store: &str) -> Result<(), ClientError> {
        let role = if self.is_cluster() { Role::ClusterNode } else { Role::Standalone };
        for connection in self.connections().await? {
            let verified = handshake::verify(&connection, store, role).await;
            verified.map_err(|error| self.with_address(&connection, error))?;
        }
        Ok(())
    }

    /// Connects to all servers, and follows the sentinels from now on, on the current runtime.
    pub(crate) async fn start(&self) -> Result<(), ClientError> {
        if let Self::Sentinel(_, sentinels) = self {
            sentinels.follow();
        }
        self.connections().await.map(drop)
    }

    /// Returns a connection to each server.
    async fn connections(&self) -> Result<Vec<Connection>, ClientError> {
        match self {
            Self::Server(pool) | Self::Sentinel(pool, _) => Ok(vec![pool.connection().await?]),
            Self::Cluster(cluster) => cluster.connections().await,
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Identifies the server that keeps `key`.
    pub(crate) fn shard(&self, key: &str) -> u64 {
        match self {
            Self::Server(_) | Self::Sentinel(..) => 0,
            Self::Cluster(cluster) => cluster.shard(key),
        }
    }

    /// Changes whenever a server may have received a slot.
    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::Server(_) | Self::Sentinel(..) => 0,
            Self::Cluster(cluster) => cluster.version(),
        }
    }
}
