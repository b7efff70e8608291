//! Locks in Redis. Two protocols share one client: the [queue] of one server that decides alone,
//! and [redlock], a majority of independent servers.

mod client;
mod fences;
mod keys;
pub(crate) mod leases;
pub(crate) mod queue;
pub(crate) mod redlock;
pub(crate) mod reply;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use redis::{Client, ConnectionInfo};
use tokio::sync::watch;

use self::client::connector::Config;
use self::client::error::{ClientError, Kind};
use self::client::replication::Replication;
#[cfg(feature = "tls")]
use self::client::tls::{self, Certificates};
use self::client::url;
use self::queue::QueueStore;
use self::redlock::Redlock;
use self::topology::router::Router;
use super::{Store, StoreError};
use crate::error::{LockError, Step};
use crate::token;

/// The options of Redis stores.
#[derive(Debug, Clone, Default)]
pub(crate) struct RedisOptions {
    /// How many replicas have to acknowledge a grant or a renewal.
    pub(crate) replicas: u32,
    #[cfg(feature = "tls")]
    pub(crate) certificates: Certificates,
}

impl RedisOptions {
    /// Fails if replicas are required of a store that has none.
    pub(crate) fn refuse_replicas(&self, store: &str) -> Result<(), LockError> {
        if self.replicas > 0 {
            let what = format!("`replicas` cannot be used with {store}, which has none");
            return Err(LockError::not_configured(what));
        }
        Ok(())
    }

    /// Adds the certificates to the settings of a server.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "there are none")
    )]
    fn secure(&self, info: ConnectionInfo) -> Result<ConnectionInfo, LockError> {
        #[cfg(feature = "tls")]
        let info = self.certificates.apply(info).map_err(LockError::not_configured)?;
        Ok(info)
    }

    fn secure_all(&self, infos: Vec<ConnectionInfo>) -> Result<Vec<ConnectionInfo>, LockError> {
        infos.into_iter().map(|info| self.secure(info)).collect()
    }

    /// The configuration of a manager's connections, which become stale when the epoch grows.
    fn config(&self, timeout: Duration, newest_epoch: watch::Receiver<u64>) -> Config {
        #[cfg(feature = "tls")]
        tls::install_provider();
        Config {
            timeout,
            replication: Replication::to(self.replicas, timeout),
            client_name: token::process_name(),
            on_push: Arc::new(|_, _| {}),
            newest_epoch,
            warned_no_push: Arc::default(),
        }
    }
}

/// Opens the store of a URL with one server.
pub(crate) async fn open_server(
    url: &str,
    timeout: Duration,
    options: &RedisOptions,
) -> Result<Arc<dyn Store>, LockError> {
    let info = url::server(url).map_err(LockError::not_configured)?;
    open_info(info, timeout, options).await
}

/// Opens the store of a client that the application has created.
pub(crate) async fn open_client(
    client: &Client,
    timeout: Duration,
    options: &RedisOptions,
) -> Result<Arc<dyn Store>, LockError> {
    open_info(client.get_connection_info().clone(), timeout, options).await
}

async fn open_info(
    info: ConnectionInfo,
    timeout: Duration,
    options: &RedisOptions,
) -> Result<Arc<dyn Store>, LockError> {
    let info = options.secure(info)?;
    let config = options.config(timeout, no_epoch());
    let store = QueueStore::new(url::name(&info), config, |config| Router::server(info, config));
    verified(store).await
}

/// Opens the store of a URL with sentinels.
pub(crate) async fn open_sentinel(
    url: &str,
    timeout: Duration,
    options: &RedisOptions,
) -> Result<Arc<dyn Store>, LockError> {
    let mut settings = url::sentinels(url).map_err(LockError::not_configured)?;
    settings.sentinels = options.secure_all(settings.sentinels)?;
    settings.master = options.secure(settings.master)?;
    let sentinels = url::names("redis-sentinel", &settings.sentinels);
    let name = format!("{sentinels}/{}", settings.service);
    let (epochs, newest_epoch) = watch::channel(0);
    let config = options.config(timeout, newest_epoch);
    let router = |config| Router::sentinel(settings, config, epochs);
    verified(QueueStore::new(name, config, router)).await
}

/// Opens the store of a URL with the nodes of a cluster.
pub(crate) async fn open_cluster(
    url: &str,
    timeout: Duration,
    options: &RedisOptions,
) -> Result<Arc<dyn Store>, LockError> {
    let seeds = options.secure_all(url::servers(url).map_err(LockError::not_configured)?)?;
    let name = url::names("redis-cluster", &seeds);
    let config = options.config(timeout, no_epoch());
    let store = QueueStore::new(name, config, |config| Router::cluster(seeds, config));
    verified(store).await
}

/// Opens the store of a URL with independent servers.
pub(crate) async fn open_redlock(
    url: &str,
    timeout: Duration,
    options: &RedisOptions,
) -> Result<Arc<dyn Store>, LockError> {
    options.refuse_replicas("redlock://")?;
    let servers = options.secure_all(url::servers(url).map_err(LockError::not_configured)?)?;
    let config = options.config(timeout, no_epoch());
    let store = Redlock::new(servers, config).map_err(LockError::not_configured)?;
    let checked = store.verify().await;
    checked.map_err(|source| unavailable(store.name(), source))?;
    Ok(Arc::new(store))
}

/// A constant epoch, for servers without sentinels.
fn no_epoch() -> watch::Receiver<u64> {
    watch::channel(0).1
}

async fn verified(store: QueueStore) -> Result<Arc<dyn Store>, LockError> {
    store.verify().await.map_err(|source| unavailable(store.name(), source))?;
    Ok(Arc::new(store))
}

fn unavailable(store: &str, source: StoreError) -> LockError {
    LockError::Unavailable { key: None, step: Step::Connect, store: store.into(), source }
}

/// The only place where an error of the client becomes an error of a store.
impl From<ClientError> for StoreError {
    fn from(error: ClientError) -> Self {
        let kind = match error.kind {
            Kind::Refused => StoreError::Refused,
            Kind::Moved(_) | Kind::Ask(_) | Kind::TryAgain | Kind::NoScript | Kind::NotExecuted => {
                StoreError::NotExecuted
            }
            Kind::Disconnected => StoreError::Disconnected,
            Kind::Unknown => StoreError::Unknown,
        };
        kind(error.into())
    }
}
