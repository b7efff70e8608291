//! A Redis Cluster for one test.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use redis::FromRedisValue;
use tokio::time::timeout;

use crate::{Network, Server, ServerBuilder, eventually};

const LIMIT: Duration = Duration::from_secs(30);
/// The timeout for a reply of a node that may be paused or cut off.
const REPLY_LIMIT: Duration = Duration::from_millis(250);
/// A replica gives up a planned failover after five seconds, for example when the masters have
/// voted for it just before.
const FAILOVER_LIMIT: Duration = Duration::from_secs(6);
const SLOTS: u16 = 16_384;
const MASTERS: usize = 3;

/// Three masters, each with one replica.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    ids: Vec<String>,
}

impl Cluster {
    /// Starts a cluster in which a node counts as failed after a second.
    ///
    /// # Panics
    ///
    /// If it is not healthy within 30 seconds.
    pub async fn start() -> Self {
        Self::start_with(|server| server).await
    }

    /// Starts a cluster with other settings of its servers.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub async fn start_with(settings: impl Fn(ServerBuilder) -> ServerBuilder) -> Self {
        Self::start_on(None, settings).await
    }

    /// Starts a cluster on nodes of a network, one per server, with other settings.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub async fn start_in(
        network: &Network,
        settings: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        Self::start_on(Some(network), settings).await
    }

    async fn start_on(
        network: Option<&Network>,
        settings: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..2 * MASTERS {
            let node = Server::builder().within(network).await.config("cluster-enabled yes");
            let node =
                node.config("cluster-node-timeout 1000").config("repl-ping-replica-period 1");
            nodes.push(settings(node).start().await);
        }
        let mut cluster = Self { nodes, ids: Vec::new() };
        for node in 0..cluster.nodes.len() {
            cluster.ids.push(cluster.query(node, "CLUSTER MYID").await);
            let (host, port) = (cluster.nodes[0].addr().ip(), cluster.nodes[0].port());
            cluster.run(node, &format!("CLUSTER MEET {host} {port}")).await;
        }
        for master in 0..MASTERS {
            let share = |number: usize| usize::from(SLOTS) * number / MASTERS;
            let (first, last) = (share(master), share(master + 1) - 1);
            cluster.run(master, &format!("CLUSTER ADDSLOTSRANGE {first} {last}")).await;
        }
        for replica in MASTERS..cluster.nodes.len() {
            let master = cluster.ids[replica - MASTERS].clone();
            eventually("the replica accepts its master", LIMIT, async || {
                let replicate = format!("CLUSTER REPLICATE {master}");
                cluster.nodes[replica].try_query::<redis::Value>(&replicate).await.is_ok()
            })
            .await;
        }
        cluster.wait_until_healthy().await;
        cluster
    }

    /// Waits until all nodes report the same healthy cluster and all replicas are up to date.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn wait_until_healthy(&self) {
        eventually("the cluster is healthy", LIMIT, async || {
            let mut views = BTreeSet::new();
            for node in 0..self.nodes.len() {
                views.insert(self.ranges_seen_by(node).await);
                let info: String = self.query(node, "CLUSTER INFO").await;
                let role: String = self.query(node, "INFO replication").await;
                let known = format!("cluster_known_nodes:{}\r\n", self.nodes.len());
                let is_healthy = info.contains("cluster_state:ok") && info.contains(&known);
                let in_sync = if role.contains("role:master") {
                    self.nodes[node].is_replicated(1).await
                } else {
                    role.contains("master_link_status:up")
                };
                if !is_healthy || !in_sync {
                    return false;
                }
            }
            views.len() == 1 && !views.contains(&None)
        })
        .await;
    }

    /// Returns the URL with the addresses of the initial masters.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes[..MASTERS].iter().map(|n| n.addr().to_string()).collect();
        format!("{}-cluster://{}", self.nodes[0].scheme(), hosts.join(","))
    }

    /// Returns the nodes: the initial masters, then their replicas.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Restarts a killed node on the same port. It becomes a replica if another node owns its slots
    /// by now.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub async fn restart(&mut self, node: usize) {
        self.nodes[node].restart().await;
    }

    /// Returns the node that owns the slot of `key`, according to most nodes.
    ///
    /// # Panics
    ///
    /// If no node reports an owner within 30 seconds.
    pub async fn owner(&self, key: &str) -> usize {
        let mut owners = BTreeMap::<usize, usize>::new();
        eventually("a node reports the owner of the key", LIMIT, async || {
            for node in 0..self.nodes.len() {
                if let Ok(Some(owner)) = timeout(REPLY_LIMIT, self.owner_seen_by(node, key)).await {
                    *owners.entry(owner).or_default() += 1;
                }
            }
            !owners.is_empty()
        })
        .await;
        let owner = owners.into_iter().max_by_key(|(_, count)| *count);
        owner.expect("a node reports the owner of the key").0
    }

    async fn owner_seen_by(&self, node: usize, key: &str) -> Option<usize> {
        let slot: u16 = self.nodes[node].try_query(&format!("CLUSTER KEYSLOT {key}")).await.ok()?;
        let ranges = self.ranges_seen_by(node).await?;
        let (.., owner) =
            ranges.into_iter().find(|(first, last, _)| (*first..=*last).contains(&slot))?;
        Some(owner)
    }

    /// Returns the first and last slot of each range and its owner, as `node` reports them.
    async fn ranges_seen_by(&self, node: usize) -> Option<Vec<(u16, u16, usize)>> {
        let slots: Vec<Vec<redis::Value>> =
            self.nodes[node].try_query("CLUSTER SLOTS").await.ok()?;
        let range = |range: &Vec<redis::Value>| {
            let first = u16::from_redis_value_ref(&range[0]).ok()?;
            let last = u16::from_redis_value_ref(&range[1]).ok()?;
            let (_host, _port, id, ..): (String, u16, String, redis::Value) =
                FromRedisValue::from_redis_value_ref(&range[2]).ok()?;
            let owner = self.ids.iter().position(|known| *known == id)?;
            Some((first, last, owner))
        };
        let mut ranges = slots.iter().map(range).collect::<Option<Vec<_>>>()?;
        ranges.sort_unstable();
        Some(ranges)
    }

    /// Promotes a replica, with the agreement of its master unless `how` says `FORCE` or `TAKEOVER`.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn fail_over(&self, replica: usize, how: &str) {
        let command = format!("CLUSTER FAILOVER {how}");
        self.run(replica, &command).await;
        let mut ordered = Instant::now();
        eventually("the replica is promoted", LIMIT, async || {
            if ordered.elapsed() > FAILOVER_LIMIT {
                ordered = Instant::now();
                // Refused if it has been promoted meanwhile.
                let _ = self.nodes[replica].try_query::<redis::Value>(&command).await;
            }
            let role: String = self.query(replica, "INFO replication").await;
            role.contains("role:master")
        })
        .await;
    }

    /// Begins to move the slot of `key` from one node to another: requests for keys that have
    /// already moved are redirected with `ASK`.
    ///
    /// # Panics
    ///
    /// If the nodes refuse.
    pub async fn begin_move(&self, key: &str, from: usize, to: usize) {
        let slot: u16 = self.query(from, &format!("CLUSTER KEYSLOT {key}")).await;
        self.run(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.ids[from])).await;
        self.run(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.ids[to])).await;
    }

    /// Moves all keys of the slot of `key`.
    ///
    /// # Panics
    ///
    /// If the nodes refuse.
    pub async fn move_keys(&self, key: &str, from: usize, to: usize) {
        let slot: u16 = self.query(from, &format!("CLUSTER KEYSLOT {key}")).await;
        let (host, port) = (self.nodes[to].addr().ip(), self.nodes[to].port());
        loop {
            let command = format!("CLUSTER GETKEYSINSLOT {slot} 10");
            let keys: Vec<String> = self.query(from, &command).await;
            let Some(key) = keys.first() else { return };
            self.run(from, &format!("MIGRATE {host} {port} {key} 0 5000")).await;
        }
    }

    /// Ends a move: the other node owns the slot.
    ///
    /// # Panics
    ///
    /// If the nodes refuse.
    pub async fn end_move(&self, key: &str, from: usize, to: usize) {
        let slot: u16 = self.query(from, &format!("CLUSTER KEYSLOT {key}")).await;
        for node in [to, from] {
            self.run(node, &format!("CLUSTER SETSLOT {slot} NODE {}", self.ids[to])).await;
        }
    }

    /// Runs a command whose arguments contain no spaces on a node.
    ///
    /// # Panics
    ///
    /// If the node refuses it.
    pub async fn run(&self, node: usize, command: &str) {
        self.query::<redis::Value>(node, command).await;
    }

    /// Returns a node's reply to a command whose arguments contain no spaces.
    ///
    /// # Panics
    ///
    /// If the node does not reply.
    pub async fn query<T: FromRedisValue>(&self, node: usize, command: &str) -> T {
        let reply = self.nodes[node].try_query(command).await;
        reply.unwrap_or_else(|error| panic!("{command}: {error}"))
    }
}
