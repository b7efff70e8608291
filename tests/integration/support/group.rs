//! Independent servers for Redlock.

use std::time::Duration;

use futures_util::future::join_all;
use harness::{Proxy, Server, ServerBuilder, eventually, redlock_url};
use lock_runtime::LockManager;
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;

use super::{SOON, count_keys, warm_up};

/// Returns a server that may vote from its start, because it persists every write.
pub(crate) fn durable() -> ServerBuilder {
    Server::builder().config("appendonly yes").config("appendfsync always")
}

/// Independent servers, each with a proxy and a connection to inspect it.
pub(crate) struct Group {
    pub(crate) servers: Vec<Server>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) redis: Vec<MultiplexedConnection>,
}

impl Group {
    /// Starts this many servers that persist every write.
    pub(crate) async fn start(count: usize) -> Self {
        Self::start_with((0..count).map(|_| durable())).await
    }

    pub(crate) async fn start_with(servers: impl IntoIterator<Item = ServerBuilder>) -> Self {
        let servers = join_all(servers.into_iter().map(ServerBuilder::start)).await;
        let proxies = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        let redis = join_all(servers.iter().map(Server::connection)).await;
        Self { servers, proxies, redis }
    }

    pub(crate) fn url(&self) -> String {
        redlock_url(self.servers.iter().map(Server::addr))
    }

    /// Returns a manager that has used the servers.
    pub(crate) async fn connect(&self) -> LockManager {
        let locks = LockManager::connect(self.url()).await.unwrap();
        warm_up(&locks).await;
        locks
    }

    /// Returns a manager that has used the servers through the proxies.
    pub(crate) async fn connect_through_proxies(&self) -> LockManager {
        let locks =
            LockManager::connect(redlock_url(self.proxies.iter().map(Proxy::addr))).await.unwrap();
        warm_up(&locks).await;
        locks
    }

    /// Returns the value of `key` on each server.
    pub(crate) async fn values(&mut self, key: &str) -> Vec<Option<String>> {
        join_all(self.redis.iter_mut().map(async |redis| redis.get(key).await.unwrap())).await
    }

    /// Waits until no server has a lock.
    pub(crate) async fn wait_until_empty(&mut self, limit: Duration) {
        eventually("no server has a lock", limit, async || {
            let counts = join_all(self.redis.iter_mut().map(count_keys)).await;
            counts.into_iter().all(|count| count == 0)
        })
        .await;
    }

    /// Waits until exactly this many servers have `key`.
    pub(crate) async fn wait_until_held_on(&mut self, key: &str, count: usize) {
        let what = format!("{count} servers have {key}");
        eventually(&what, SOON, async || self.values(key).await.iter().flatten().count() == count)
            .await;
    }
}
