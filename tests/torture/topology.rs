//! The servers that keep the locks, and everything that differs between topologies.

use std::fmt;
use std::slice;
use std::time::Duration;

use clap::ValueEnum;
use futures_util::future::join_all;
use harness::{Cluster, Sentinels, Server, eventually, redlock_url, run};
use tokio::time::sleep;

use crate::faults::{Fault, GroupFault};
use crate::observer::{Observer, Rule, is_eligible, uptime};
use crate::{KEYS, name};

/// Number of Redlock servers.
const REDLOCK_SERVERS: usize = 5;
/// Limit of a failover, and of the time until Redlock servers are eligible.
const LIMIT: Duration = Duration::from_secs(30);
/// Makes sentinels demote a returning master sooner; by default, they wait for ten seconds.
const FAST_SENTINELS: &str = "SENTINEL DEBUG INFO-PERIOD 1000 PUBLISH-PERIOD 500";

/// The servers that keep the locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topology {
    /// One server
    Server,
    /// A master with two replicas, monitored by three sentinels
    Sentinel,
    /// A cluster of three masters with a replica each
    Cluster,
    /// As `sentinel`, where both replicas have to acknowledge each grant
    Replicas,
    /// Five independent servers, of which a majority grants
    Redlock,
}

impl Topology {
    /// Whether a failover may lose the last locks.
    pub(crate) fn loses_locks(self) -> bool {
        matches!(self, Self::Sentinel | Self::Cluster)
    }

    /// Returns the number of replicas that have to acknowledge each grant.
    pub(crate) fn replicas(self) -> u32 {
        if self == Self::Replicas { 2 } else { 0 }
    }

    /// Whether locks may not be grantable until the fault is healed; otherwise, a failover restores
    /// grants earlier.
    pub(crate) fn cannot_grant_during(self, fault: Fault) -> bool {
        match fault {
            Fault::Process(_) | Fault::Network(_) | Fault::Freeze(_) => false,
            Fault::Server(_) => true,
            Fault::Group(_, fault) => match self {
                Self::Server | Self::Replicas => true,
                Self::Sentinel | Self::Cluster => matches!(fault, GroupFault::Pause(_)),
                Self::Redlock => matches!(fault, GroupFault::Kill(_)),
            },
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no variant is hidden").get_name())
    }
}

/// The running servers.
#[derive(Debug)]
pub(crate) enum Servers {
    Single(Box<Server>),
    Sentinels(Sentinels),
    Cluster(Cluster),
    Redlock(Vec<Server>),
}

impl Servers {
    pub(crate) async fn start(topology: Topology, amnesia: bool) -> Self {
        let servers = match topology {
            Topology::Server => Self::Single(start_single(amnesia).await.into()),
            Topology::Sentinel | Topology::Replicas => {
                let sentinels = Sentinels::start("torture").await;
                for sentinel in sentinels.sentinels() {
                    run(&mut sentinel.connection().await, FAST_SENTINELS).await;
                }
                Self::Sentinels(sentinels)
            }
            Topology::Cluster => Self::Cluster(Cluster::start().await),
            // Without persistence, a killed server forgets its votes and must not vote for a while.
            Topology::Redlock => {
                Self::Redlock(join_all((0..REDLOCK_SERVERS).map(|_| Server::start())).await)
            }
        };
        servers.wait_until_healthy().await;
        servers
    }

    /// Returns the URL for clients.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Single(server) => server.url(),
            Self::Sentinels(sentinels) => sentinels.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Redlock(servers) => redlock_url(servers.iter().map(Server::addr)),
        }
    }

    /// Returns an observer of the locks on these servers.
    pub(crate) fn observer(&self) -> Observer {
        let rule = match self {
            Self::Redlock(servers) => Rule::Majority(servers.len() / 2 + 1),
            _ => Rule::SingleMaster,
        };
        Observer::new(self.all().iter().map(Server::url), rule)
    }

    fn all(&self) -> &[Server] {
        match self {
            Self::Single(server) => slice::from_ref(server),
            Self::Sentinels(sentinels) => sentinels.servers(),
            Self::Cluster(cluster) => cluster.nodes(),
            Self::Redlock(servers) => servers,
        }
    }

    async fn restart(&mut self, server: usize) {
        match self {
            Self::Single(server) => server.restart().await,
            Self::Sentinels(sentinels) => sentinels.restart(server).await,
            Self::Cluster(cluster) => cluster.restart(server).await,
            Self::Redlock(servers) => servers[server].restart().await,
        }
    }

    /// Injects a fault and waits until all servers are healthy again.
    pub(crate) async fn inject(&mut self, number: usize, fault: GroupFault) {
        let targets = self.targets(number).await;
        match fault {
            GroupFault::Stop(duration) => {
                for &target in &targets {
                    self.all()[target].pause();
                }
                sleep(duration).await;
                for target in targets {
                    self.all()[target].resume();
                }
            }
            GroupFault::Kill(duration) => {
                for &target in &targets {
                    self.all()[target].kill();
                }
                self.wait_for_failover(number, &targets).await;
                sleep(duration).await;
                for &target in &targets {
                    self.restart(target).await;
                }
                if let Self::Redlock(servers) = self {
                    // A majority has then forgotten its votes within the time of one lease.
                    for target in targets {
                        servers[(target + 2) % REDLOCK_SERVERS].restart().await;
                    }
                }
            }
            GroupFault::Pause(duration) => {
                let pause = format!("CLIENT PAUSE {}", duration.as_millis());
                let targets = targets.iter().map(|&target| &self.all()[target]);
                run_on(targets, &pause).await;
                sleep(duration).await;
            }
            GroupFault::FailOver => match self {
                Self::Sentinels(sentinels) => sentinels.fail_over().await,
                Self::Cluster(cluster) => {
                    let pair = cluster.nodes().len() / 2;
                    cluster.fail_over((targets[0] + pair) % (2 * pair), "").await;
                }
                Self::Single(_) | Self::Redlock(_) => {}
            },
            GroupFault::MoveSlot(duration) => {
                if let Self::Cluster(cluster) = self {
                    move_slot(cluster, number, duration).await;
                }
            }
            GroupFault::Disconnect(of_type) => {
                run_on(self.all(), &format!("CLIENT KILL TYPE {of_type}")).await;
            }
            GroupFault::ForgetScripts => run_on(self.all(), "SCRIPT FLUSH").await,
        }
        self.wait_until_healthy().await;
    }

    /// Returns the master, the owner of a lock's slot, or two of the Redlock servers.
    async fn targets(&self, number: usize) -> Vec<usize> {
        match self {
            Self::Single(_) => vec![0],
            Self::Sentinels(sentinels) => {
                let master = sentinels.master().await.port();
                let is_master = |server: &Server| server.port() == master;
                sentinels.servers().iter().position(is_master).into_iter().collect()
            }
            Self::Cluster(cluster) => vec![cluster.owner(&name(number % KEYS)).await],
            Self::Redlock(_) => vec![number % REDLOCK_SERVERS, (number + 1) % REDLOCK_SERVERS],
        }
    }

    /// Waits until another server has replaced the killed master.
    async fn wait_for_failover(&self, number: usize, targets: &[usize]) {
        match self {
            Self::Sentinels(sentinels) => {
                sentinels.wait_until_replaced(sentinels.servers()[targets[0]].port()).await;
            }
            Self::Cluster(cluster) => {
                eventually("another master owns the slot", LIMIT, async || {
                    cluster.owner(&name(number % KEYS)).await != targets[0]
                })
                .await;
            }
            Self::Single(_) | Self::Redlock(_) => {}
        }
    }

    /// Waits until all servers are healthy.
    async fn wait_until_healthy(&self) {
        match self {
            Self::Single(_) => {}
            Self::Sentinels(sentinels) => sentinels.wait_until_healthy().await,
            Self::Cluster(cluster) => cluster.wait_until_healthy().await,
            Self::Redlock(servers) => {
                eventually("all servers are eligible", LIMIT, async || {
                    join_all(servers.iter().map(uptime_of)).await.into_iter().all(is_eligible)
                })
                .await;
            }
        }
    }
}

/// Starts a server that keeps its locks over a restart, unless with amnesia.
async fn start_single(amnesia: bool) -> Server {
    Server::builder()
        .config(if amnesia { "appendonly no" } else { "appendonly yes" })
        .config("appendfsync always")
        .config("auto-aof-rewrite-percentage 0")
        .config("busy-reply-threshold 100")
        .config("enable-debug-command local")
        .start()
        .await
}

async fn uptime_of(server: &Server) -> Duration {
    let mut redis = server.connection().await;
    let info = redis::cmd("INFO").arg("server").query_async::<String>(&mut redis).await;
    uptime(&info.expect("the server did not reply to INFO"))
}

async fn run_on(servers: impl IntoIterator<Item = &Server>, command: &str) {
    join_all(
        servers.into_iter().map(async |server| run(&mut server.connection().await, command).await),
    )
    .await;
}

/// Moves the slot of a lock to another master, pausing while it is in migration.
async fn move_slot(cluster: &Cluster, number: usize, duration: Duration) {
    let key = name(number % KEYS);
    let from = cluster.owner(&key).await;
    let mut masters = Vec::new();
    for node in (0..cluster.nodes().len()).filter(|&node| node != from) {
        let role: String = cluster.query(node, "INFO replication").await;
        if role.contains("role:master") {
            masters.push(node);
        }
    }
    let to = masters[number % masters.len()];
    cluster.begin_move(&key, from, to).await;
    sleep(duration).await;
    cluster.move_keys(&key, from, to).await;
    cluster.end_move(&key, from, to).await;
}
