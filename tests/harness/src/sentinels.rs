//! A master with replicas and sentinels for one test.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Network, Server, ServerBuilder, eventually};

const LIMIT: Duration = Duration::from_secs(30);
const SENTINELS: usize = 3;
const REPLICAS: usize = 2;

/// Three sentinels that watch three servers: a master and two replicas.
#[derive(Debug)]
pub struct Sentinels {
    watchers: Vec<Server>,
    servers: Vec<Server>,
    service: String,
}

impl Sentinels {
    /// Starts sentinels that consider a master down after a second.
    ///
    /// # Panics
    ///
    /// If they have not all discovered each other within 30 seconds.
    pub async fn start(service: &str) -> Self {
        Self::start_with(service, |server| server).await
    }

    /// Starts sentinels, with other settings of the servers and of the sentinels.
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

    /// Starts sentinels and servers on nodes of a network, one each.
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
        all.wait_until_healthy().await;
        all
    }

    /// Waits until all sentinels have discovered each other, no failover is in progress, and all
    /// replicas are up to date.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn wait_until_healthy(&self) {
        eventually("the sentinels are healthy", LIMIT, async || {
            let master = self.master().await;
            let known = format!("status=ok,address={}", master.addr());
            let known = format!("{known},slaves={REPLICAS},sentinels={SENTINELS}");
            for sentinel in &self.watchers {
                let info: String = sentinel.try_query("INFO sentinel").await.unwrap_or_default();
                let command = format!("SENTINEL MASTER {}", self.service);
                let details: BTreeMap<String, String> =
                    sentinel.try_query(&command).await.unwrap_or_default();
                let is_settled =
                    details.get("flags").is_some_and(|flags| !flags.contains("failover"));
                if !info.contains(&known) || !is_settled {
                    return false;
                }
            }
            master.is_replicated(REPLICAS).await
        })
        .await;
    }

    /// Returns the URL with the addresses of the sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.watchers.iter().map(|s| s.addr().to_string()).collect();
        let scheme = self.watchers[0].scheme();
        format!("{scheme}-sentinel://{}/{}", hosts.join(","), self.service)
    }

    /// Returns the sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.watchers
    }

    /// Returns the servers; the first one starts as the master.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Restarts a killed server on the same port. The sentinels make it a replica if another server
    /// is the master by now.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub async fn restart(&mut self, server: usize) {
        self.servers[server].restart().await;
    }

    /// Returns the server that most sentinels report as the master.
    ///
    /// # Panics
    ///
    /// If no sentinel replies.
    pub async fn master(&self) -> &Server {
        let mut ports = Vec::new();
        for sentinel in &self.watchers {
            ports.extend(self.master_port_of(sentinel).await);
        }
        let count = |server: &&Server| ports.iter().filter(|port| **port == server.port()).count();
        self.servers.iter().max_by_key(count).expect("there are servers")
    }

    /// Returns the port of the master that a sentinel reports, if it replies.
    async fn master_port_of(&self, sentinel: &Server) -> Option<u16> {
        let command = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", self.service);
        let (_, port) = sentinel.try_query::<(String, u16)>(&command).await.ok()?;
        Some(port)
    }

    /// Makes the sentinels promote another server although the master is healthy, and waits until
    /// all of them report it.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn fail_over(&self) {
        let before = self.master().await.port();
        eventually("a sentinel starts a failover", LIMIT, async || {
            let command = format!("SENTINEL FAILOVER {}", self.service);
            self.watchers[0].try_query::<redis::Value>(&command).await.is_ok()
        })
        .await;
        self.wait_until_replaced(before).await;
    }

    /// Waits until all sentinels that reply report a master other than that with the port `before`.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn wait_until_replaced(&self, before: u16) {
        eventually("the sentinels report another master", LIMIT, async || {
            for sentinel in &self.watchers {
                if self.master_port_of(sentinel).await == Some(before) {
                    return false;
                }
            }
            true
        })
        .await;
    }
}
