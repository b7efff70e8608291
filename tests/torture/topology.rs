//! The servers that keep the locks: all that differs from one topology to another.

use std::fmt;
use std::slice;
use std::time::Duration;

use clap::ValueEnum;
use futures_util::future::join_all;
use harness::{Cluster, Sentinels, Server, eventually, redlock_url, run};
use tokio::time::sleep;

use crate::faults::{Fault, GroupFault};
use crate::look::{Rule, Witnesses, uptime, votes};
use crate::{KEYS, name};

/// How many servers vote.
const VOTERS: usize = 5;
/// Until all is well again, or another server has taken over.
const LIMIT: Duration = Duration::from_secs(30);
/// Without, sentinels leave a master that came back in office for ten seconds.
const HASTE: &str = "SENTINEL DEBUG INFO-PERIOD 1000 PUBLISH-PERIOD 500";

/// How the locks are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topology {
    /// By one server
    Server,
    /// By a master with two replicas, watched by three sentinels
    Sentinel,
    /// By three masters of a cluster, each with a replica
    Cluster,
    /// As with `sentinel`, and both replicas have to acknowledge them
    Replicas,
    /// By a majority of five servers
    Redlock,
}

impl Topology {
    /// Whether a server may take over that lacks the last locks.
    pub(crate) fn forgets(self) -> bool {
        matches!(self, Self::Sentinel | Self::Cluster)
    }

    /// How many replicas have to acknowledge each grant.
    pub(crate) fn replicas(self) -> u32 {
        if self == Self::Replicas { 2 } else { 0 }
    }

    /// Whether nothing may be granted while a fault lasts. Elsewhere, others take over while it does.
    pub(crate) fn is_down_by(self, fault: Fault) -> bool {
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
        f.write_str(self.to_possible_value().expect("none is hidden").get_name())
    }
}

/// The servers, running.
#[derive(Debug)]
pub(crate) enum Servers {
    One(Box<Server>),
    Watched(Sentinels),
    Cluster(Cluster),
    Independent(Vec<Server>),
}

impl Servers {
    pub(crate) async fn start(topology: Topology, amnesia: bool) -> Self {
        let servers = match topology {
            Topology::Server => Self::One(single(amnesia).await.into()),
            Topology::Sentinel | Topology::Replicas => {
                let sentinels = Sentinels::start("torture").await;
                for sentinel in sentinels.sentinels() {
                    run(&mut sentinel.connection().await, HASTE).await;
                }
                Self::Watched(sentinels)
            }
            Topology::Cluster => Self::Cluster(Cluster::start().await),
            // They forget what they granted when they are killed, and must not vote for a while then.
            Topology::Redlock => {
                Self::Independent(join_all((0..VOTERS).map(|_| Server::start())).await)
            }
        };
        servers.well().await;
        servers
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Watched(sentinels) => sentinels.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Independent(servers) => redlock_url(servers.iter().map(Server::addr)),
        }
    }

    /// Who tells what is kept.
    pub(crate) fn witnesses(&self) -> Witnesses {
        let rule = match self {
            Self::Independent(servers) => Rule::AMajority(servers.len() / 2 + 1),
            _ => Rule::TheMaster,
        };
        Witnesses::new(self.all().iter().map(Server::url), rule)
    }

    fn all(&self) -> &[Server] {
        match self {
            Self::One(server) => slice::from_ref(server),
            Self::Watched(sentinels) => sentinels.servers(),
            Self::Cluster(cluster) => cluster.nodes(),
            Self::Independent(servers) => servers,
        }
    }

    async fn restart(&mut self, server: usize) {
        match self {
            Self::One(server) => server.restart().await,
            Self::Watched(sentinels) => sentinels.restart(server).await,
            Self::Cluster(cluster) => cluster.restart(server).await,
            Self::Independent(servers) => servers[server].restart().await,
        }
    }

    /// Makes a fault and waits until all is well again.
    pub(crate) async fn inject(&mut self, number: usize, fault: GroupFault) {
        let victims = self.in_charge(number).await;
        match fault {
            GroupFault::Stop(duration) => {
                for &victim in &victims {
                    self.all()[victim].pause();
                }
                sleep(duration).await;
                for victim in victims {
                    self.all()[victim].resume();
                }
            }
            GroupFault::Kill(duration) => {
                for &victim in &victims {
                    self.all()[victim].kill();
                }
                self.taken_over(number, &victims).await;
                sleep(duration).await;
                for &victim in &victims {
                    self.restart(victim).await;
                }
                if let Self::Independent(servers) = self {
                    // So most of them have forgotten what they granted, all in the time of a lease.
                    for victim in victims {
                        servers[(victim + 2) % VOTERS].restart().await;
                    }
                }
            }
            GroupFault::Pause(duration) => {
                let pause = format!("CLIENT PAUSE {}", duration.as_millis());
                let victims = victims.iter().map(|&victim| &self.all()[victim]);
                run_on(victims, &pause).await;
                sleep(duration).await;
            }
            GroupFault::FailOver => match self {
                Self::Watched(sentinels) => sentinels.fail_over().await,
                Self::Cluster(cluster) => {
                    let pair = cluster.nodes().len() / 2;
                    cluster.fail_over((victims[0] + pair) % (2 * pair), "").await;
                }
                Self::One(_) | Self::Independent(_) => {}
            },
            GroupFault::Move(duration) => {
                if let Self::Cluster(cluster) = self {
                    move_slot(cluster, number, duration).await;
                }
            }
            GroupFault::Disconnect(of_type) => {
                run_on(self.all(), &format!("CLIENT KILL TYPE {of_type}")).await;
            }
            GroupFault::ForgetScripts => run_on(self.all(), "SCRIPT FLUSH").await,
        }
        self.well().await;
    }

    /// Those that keep the locks, or one of the locks, or two of five.
    async fn in_charge(&self, number: usize) -> Vec<usize> {
        match self {
            Self::One(_) => vec![0],
            Self::Watched(sentinels) => {
                let master = sentinels.master().await.port();
                let is_master = |server: &Server| server.port() == master;
                sentinels.servers().iter().position(is_master).into_iter().collect()
            }
            Self::Cluster(cluster) => vec![cluster.owner(&name(number % KEYS)).await],
            Self::Independent(_) => vec![number % VOTERS, (number + 1) % VOTERS],
        }
    }

    /// Waits until others do what these did.
    async fn taken_over(&self, number: usize, victims: &[usize]) {
        match self {
            Self::Watched(sentinels) => {
                sentinels.wait_until_replaced(sentinels.servers()[victims[0]].port()).await;
            }
            Self::Cluster(cluster) => {
                eventually("another one has the slot", LIMIT, async || {
                    cluster.owner(&name(number % KEYS)).await != victims[0]
                })
                .await;
            }
            Self::One(_) | Self::Independent(_) => {}
        }
    }

    /// Waits until each server does what it is for.
    async fn well(&self) {
        match self {
            Self::One(_) => {}
            Self::Watched(sentinels) => sentinels.wait_until_healthy().await,
            Self::Cluster(cluster) => cluster.wait_until_healthy().await,
            Self::Independent(servers) => {
                eventually("all vote", LIMIT, async || {
                    join_all(servers.iter().map(age)).await.into_iter().all(votes)
                })
                .await;
            }
        }
    }
}

/// A server that keeps its locks when it is restarted, unless it is to forget them.
async fn single(amnesia: bool) -> Server {
    Server::builder()
        .config(if amnesia { "appendonly no" } else { "appendonly yes" })
        .config("appendfsync always")
        .config("auto-aof-rewrite-percentage 0")
        .config("busy-reply-threshold 100")
        .config("enable-debug-command local")
        .start()
        .await
}

async fn age(server: &Server) -> Duration {
    let mut redis = server.connection().await;
    let info = redis::cmd("INFO").arg("server").query_async::<String>(&mut redis).await;
    uptime(&info.expect("the server answers"))
}

async fn run_on(servers: impl IntoIterator<Item = &Server>, command: &str) {
    join_all(
        servers.into_iter().map(async |server| run(&mut server.connection().await, command).await),
    )
    .await;
}

/// Moves the slot of a lock to another master; for a while it is neither here nor there.
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
