//! A master with replicas, and sentinels, of the test's own.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Network, Server, ServerBuilder, eventually};

const LIMIT: Duration = Duration::from_secs(30);
const SENTINELS: usize = 3;
const REPLICAS: usize = 2;

/// Three sentinels, and three servers of which one is the master.
#[derive(Debug)]
pub struct Sentinels {
    watchers: Vec<Server>,
    servers: Vec<Server>,
    service: String,
}

impl Sentinels {
    /// Starts some, for which a master is down after a second.
    ///
    /// # Panics
    ///
    /// If they do not all know each other within 30 seconds.
    pub async fn start(service: &str) -> Self {
        Self::start_with(service, |server| server).await
    }

    /// Starts some with other settings of the servers, sentinels included.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub async fn start_with(
        service: &str,
        settings: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        Self::start_on(None, service, settings).await
    }

    /// Starts some of which each has a node of a network.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub async fn start_in(network: &Network, service: &str) -> Self {
        Self::start_on(Some(network), service, |server| server).await
    }

    async fn start_on(
        network: Option<&Network>,
        service: &str,
        settings: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let server = async || {
            let server = Server::builder().within(network).await;
            settings(server.config("repl-ping-replica-period 1"))
        };
        let mut servers = vec![server().await.start().await];
        let (host, port) = (servers[0].addr().ip(), servers[0].port());
        for _ in 0..REPLICAS {
            let replica = server().await.config(&format!("replicaof {host} {port}"));
            servers.push(replica.start().await);
        }
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            let sentinel = Server::builder().within(network).await;
            let sentinel = settings(sentinel.sentinel())
                .config(&format!("sentinel monitor {service} {host} {port} 2"))
                .config(&format!("sentinel down-after-milliseconds {service} 1000"))
                .config(&format!("sentinel failover-timeout {service} 3000"));
            sentinels.push(sentinel.start().await);
        }
        let all = Self { watchers: sentinels, servers, service: service.to_owned() };
        all.well().await;
        all
    }

    /// Waits until all sentinels know all the others and none is about to replace the master, and all
    /// servers are up to date.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn well(&self) {
        eventually("the sentinels know all", LIMIT, async || {
            let master = self.master().await;
            let known = format!("status=ok,address={}", master.addr());
            let known = format!("{known},slaves={REPLICAS},sentinels={SENTINELS}");
            for sentinel in &self.watchers {
                let info: String = sentinel.try_ask("INFO sentinel").await.unwrap_or_default();
                let question = format!("SENTINEL MASTER {}", self.service);
                let details: BTreeMap<String, String> =
                    sentinel.try_ask(&question).await.unwrap_or_default();
                let is_calm = details.get("flags").is_some_and(|flags| !flags.contains("failover"));
                if !info.contains(&known) || !is_calm {
                    return false;
                }
            }
            master.is_replicated(REPLICAS).await
        })
        .await;
    }

    /// The URL with the addresses of the sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.watchers.iter().map(|s| s.addr().to_string()).collect();
        let scheme = self.watchers[0].scheme();
        format!("{scheme}-sentinel://{}/{}", hosts.join(","), self.service)
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.watchers
    }

    /// The servers; the first one is the master in the beginning.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Starts a server again that was killed, with the same port. The sentinels make it a replica if
    /// another one is the master by now.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub async fn restart(&mut self, server: usize) {
        self.servers[server].restart().await;
    }

    /// The server that most sentinels call the master.
    ///
    /// # Panics
    ///
    /// If none answers.
    pub async fn master(&self) -> &Server {
        let mut ports = Vec::new();
        for sentinel in &self.watchers {
            ports.extend(self.named_by(sentinel).await);
        }
        let count = |server: &&Server| ports.iter().filter(|port| **port == server.port()).count();
        self.servers.iter().max_by_key(count).expect("there are servers")
    }

    /// The port of the master that a sentinel names, if it answers.
    async fn named_by(&self, sentinel: &Server) -> Option<u16> {
        let question = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", self.service);
        let (_, port) = sentinel.try_ask::<(String, u16)>(&question).await.ok()?;
        Some(port)
    }

    /// Has the sentinels make another server the master, though the old one is well, and waits until
    /// they all say so.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn fail_over(&self) {
        let before = self.master().await.port();
        eventually("a sentinel begins a failover", LIMIT, async || {
            let order = format!("SENTINEL FAILOVER {}", self.service);
            self.watchers[0].try_ask::<redis::Value>(&order).await.is_ok()
        })
        .await;
        self.switched(before).await;
    }

    /// Waits until all sentinels that answer say that the master is another one than that with the
    /// port `before`.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn switched(&self, before: u16) {
        eventually("the sentinels name another master", LIMIT, async || {
            for sentinel in &self.watchers {
                if self.named_by(sentinel).await == Some(before) {
                    return false;
                }
            }
            true
        })
        .await;
    }
}
