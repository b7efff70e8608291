//! Several servers that know nothing of each other.

use std::time::Duration;

use futures_util::future::join_all;
use harness::{Proxy, Server, ServerBuilder, eventually, redlock_url};
use lock_runtime::LockManager;
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;

use crate::support::kit::{SOON, warm_up};
use crate::support::trace::keys;

/// A server whose votes count from its start, because it forgets nothing.
pub(crate) fn durable() -> ServerBuilder {
    Server::builder().config("appendonly yes").config("appendfsync always")
}

/// Servers, each behind a network of its own, and connections to look at them.
pub(crate) struct Group {
    pub(crate) servers: Vec<Server>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) redis: Vec<MultiplexedConnection>,
}

impl Group {
    /// So many servers that forget nothing.
    pub(crate) async fn start(count: usize) -> Self {
        Self::of((0..count).map(|_| durable())).await
    }

    pub(crate) async fn of(servers: impl IntoIterator<Item = ServerBuilder>) -> Self {
        let servers = join_all(servers.into_iter().map(ServerBuilder::start)).await;
        let proxies = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        let redis = join_all(servers.iter().map(Server::connection)).await;
        Self { servers, proxies, redis }
    }

    pub(crate) fn url(&self) -> String {
        redlock_url(self.servers.iter().map(Server::addr))
    }

    /// A manager that has used the servers.
    pub(crate) async fn connect(&self) -> LockManager {
        let locks = LockManager::connect(self.url()).await.unwrap();
        warm_up(&locks).await;
        locks
    }

    /// A manager that has used them over the networks.
    pub(crate) async fn connect_over_networks(&self) -> LockManager {
        let locks =
            LockManager::connect(redlock_url(self.proxies.iter().map(Proxy::addr))).await.unwrap();
        warm_up(&locks).await;
        locks
    }

    /// What each server keeps at `key`.
    pub(crate) async fn values(&mut self, key: &str) -> Vec<Option<String>> {
        join_all(self.redis.iter_mut().map(async |redis| redis.get(key).await.unwrap())).await
    }

    /// Returns when no server keeps any lock.
    pub(crate) async fn empty(&mut self, limit: Duration) {
        eventually("all are free", limit, async || {
            let counts = join_all(self.redis.iter_mut().map(keys)).await;
            counts.into_iter().all(|count| count == 0)
        })
        .await;
    }

    /// Returns when so many servers keep `key`.
    pub(crate) async fn held_on(&mut self, key: &str, count: usize) {
        let what = format!("{count} servers keep {key}");
        eventually(&what, SOON, async || self.values(key).await.iter().flatten().count() == count)
            .await;
    }
}
