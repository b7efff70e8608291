//! A Redis Cluster of the test's own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use redis::FromRedisValue;
use tokio::time::timeout;

use crate::{Network, Server, ServerBuilder, eventually};

const LIMIT: Duration = Duration::from_secs(30);
/// For an answer of a node that may stand still or be cut off.
const GLANCE: Duration = Duration::from_millis(250);
/// A planned failover is given up after five seconds, as when the others have voted on the same servers
/// just before.
const ORDER: Duration = Duration::from_secs(6);
const SLOTS: u16 = 16_384;
const MASTERS: usize = 3;

/// Three masters, and after them the replica of each.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    ids: Vec<String>,
}

impl Cluster {
    /// Starts one in which a node is held for dead after a second.
    ///
    /// # Panics
    ///
    /// If it is not well within 30 seconds.
    pub async fn start() -> Self {
        Self::start_with(|server| server).await
    }

    /// Starts one with other settings of its servers.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub async fn start_with(settings: impl Fn(ServerBuilder) -> ServerBuilder) -> Self {
        Self::start_on(None, settings).await
    }

    /// Starts one of which each server has a node of a network, with other settings.
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
            cluster.ids.push(cluster.ask(node, "CLUSTER MYID").await);
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
            eventually("the replica knows its master", LIMIT, async || {
                let replicate = format!("CLUSTER REPLICATE {master}");
                cluster.nodes[replica].try_ask::<redis::Value>(&replicate).await.is_ok()
            })
            .await;
        }
        cluster.well().await;
        cluster
    }

    /// Waits until all nodes agree that all is well, and all replicas are up to date.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn well(&self) {
        eventually("the cluster is well", LIMIT, async || {
            let mut views = BTreeSet::new();
            for node in 0..self.nodes.len() {
                views.insert(self.ranges_by(node).await);
                let info: String = self.ask(node, "CLUSTER INFO").await;
                let role: String = self.ask(node, "INFO replication").await;
                let known = format!("cluster_known_nodes:{}\r\n", self.nodes.len());
                let is_well = info.contains("cluster_state:ok") && info.contains(&known);
                let in_sync = if role.contains("role:master") {
                    self.nodes[node].is_replicated(1).await
                } else {
                    role.contains("master_link_status:up")
                };
                if !is_well || !in_sync {
                    return false;
                }
            }
            views.len() == 1 && !views.contains(&None)
        })
        .await;
    }

    /// The URL with the addresses of the masters it began with.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes[..MASTERS].iter().map(|n| n.addr().to_string()).collect();
        format!("{}-cluster://{}", self.nodes[0].scheme(), hosts.join(","))
    }

    /// Its nodes: the masters it began with, then their replicas.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Starts a node again that was killed, with the same port. It becomes a replica if another one has
    /// its slots by now.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub async fn restart(&mut self, node: usize) {
        self.nodes[node].restart().await;
    }

    /// The node that serves a key, as most of them see it.
    ///
    /// # Panics
    ///
    /// If no node says so within 30 seconds.
    pub async fn owner(&self, key: &str) -> usize {
        let mut owners = BTreeMap::<usize, usize>::new();
        eventually("somebody serves the key", LIMIT, async || {
            for node in 0..self.nodes.len() {
                if let Ok(Some(owner)) = timeout(GLANCE, self.owner_by(node, key)).await {
                    *owners.entry(owner).or_default() += 1;
                }
            }
            !owners.is_empty()
        })
        .await;
        let owner = owners.into_iter().max_by_key(|(_, count)| *count);
        owner.expect("somebody serves the key").0
    }

    async fn owner_by(&self, node: usize, key: &str) -> Option<usize> {
        let slot: u16 = self.nodes[node].try_ask(&format!("CLUSTER KEYSLOT {key}")).await.ok()?;
        let ranges = self.ranges_by(node).await?;
        let (.., owner) =
            ranges.into_iter().find(|(first, last, _)| (*first..=*last).contains(&slot))?;
        Some(owner)
    }

    /// The first and the last slot of each range, and the node that owns them, as a node sees it.
    async fn ranges_by(&self, node: usize) -> Option<Vec<(u16, u16, usize)>> {
        let slots: Vec<Vec<redis::Value>> = self.nodes[node].try_ask("CLUSTER SLOTS").await.ok()?;
        let range = |range: &Vec<redis::Value>| {
            let first = u16::from_redis_value_ref(&range[0]).ok()?;
            let last = u16::from_redis_value_ref(&range[1]).ok()?;
            let (host, port, ..): (String, u16, String, redis::Value) =
                FromRedisValue::from_redis_value_ref(&range[2]).ok()?;
            let addr = format!("{host}:{port}");
            let owner = self.nodes.iter().position(|node| node.addr().to_string() == addr)?;
            Some((first, last, owner))
        };
        let mut ranges = slots.iter().map(range).collect::<Option<Vec<_>>>()?;
        ranges.sort_unstable();
        Some(ranges)
    }

    /// Makes a replica the master, in agreement with the master it has, or without asking it.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn fail_over(&self, replica: usize, how: &str) {
        let command = format!("CLUSTER FAILOVER {how}");
        self.run(replica, &command).await;
        let mut ordered = Instant::now();
        eventually("the replica is the master", LIMIT, async || {
            if ordered.elapsed() > ORDER {
                ordered = Instant::now();
                // Refused if it has become the master meanwhile.
                let _ = self.nodes[replica].try_ask::<redis::Value>(&command).await;
            }
            let role: String = self.ask(replica, "INFO replication").await;
            role.contains("role:master")
        })
        .await;
    }

    /// Begins to move the slot of `key` from one node to another: keys that are not there any more
    /// are asked for at the other one.
    ///
    /// # Panics
    ///
    /// If the nodes refuse.
    pub async fn begin_move(&self, key: &str, from: usize, to: usize) {
        let slot: u16 = self.ask(from, &format!("CLUSTER KEYSLOT {key}")).await;
        self.run(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.ids[from])).await;
        self.run(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.ids[to])).await;
    }

    /// Moves all keys in the slot of `key`.
    ///
    /// # Panics
    ///
    /// If the nodes refuse.
    pub async fn move_keys(&self, key: &str, from: usize, to: usize) {
        let slot: u16 = self.ask(from, &format!("CLUSTER KEYSLOT {key}")).await;
        let (host, port) = (self.nodes[to].addr().ip(), self.nodes[to].port());
        loop {
            let question = format!("CLUSTER GETKEYSINSLOT {slot} 10");
            let keys: Vec<String> = self.ask(from, &question).await;
            let Some(key) = keys.first() else { return };
            self.run(from, &format!("MIGRATE {host} {port} {key} 0 5000")).await;
        }
    }

    /// Ends a move: the slot belongs to the other node.
    ///
    /// # Panics
    ///
    /// If the nodes refuse.
    pub async fn end_move(&self, key: &str, from: usize, to: usize) {
        let slot: u16 = self.ask(from, &format!("CLUSTER KEYSLOT {key}")).await;
        for node in [to, from] {
            self.run(node, &format!("CLUSTER SETSLOT {slot} NODE {}", self.ids[to])).await;
        }
    }

    /// Runs a command whose arguments have no spaces on a node.
    ///
    /// # Panics
    ///
    /// If the node does not do it.
    pub async fn run(&self, node: usize, command: &str) {
        self.ask::<redis::Value>(node, command).await;
    }

    /// Asks a node with a command whose arguments have no spaces.
    ///
    /// # Panics
    ///
    /// If the node does not answer.
    pub async fn ask<T: FromRedisValue>(&self, node: usize, command: &str) -> T {
        let answer = self.nodes[node].try_ask(command).await;
        answer.unwrap_or_else(|error| panic!("{command}: {error}"))
    }
}
