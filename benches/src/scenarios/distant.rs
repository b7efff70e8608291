//! Servers behind slow networks, where only round trips count.

use std::iter::once;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use harness::{Cluster, Mode, Proxy, Sentinels, Server, eventually, redlock_url};

use super::topologies::{VOTES, voters};
use crate::contenders::{Terms, connect_by_hand};

/// One way.
pub(super) const DISTANCE: Duration = Duration::from_millis(10);

const LIMIT: Duration = Duration::from_secs(30);
const REPLICAS: usize = 2;
const SERVICE: &str = "locks";

/// A URL and the terms there, or a `PING`.
type Subject<'a> = Option<(&'a str, Terms)>;

/// One of each topology.
#[derive(Debug)]
pub(super) struct Distant {
    server: String,
    sentinels: String,
    cluster: String,
    votes: String,
    vote_terms: Terms,
    _servers: Vec<Server>,
    _sentinels: Sentinels,
    _cluster: Cluster,
    _networks: Vec<Proxy>,
}

impl Distant {
    pub(super) async fn start() -> Result<Self> {
        let master = Server::start().await;
        let to_master = network(&master);
        let replicas = replicas_of(&master, to_master.addr()).await;

        let sentinels = Sentinels::start(SERVICE).await;
        let to_sentinels_master = network(sentinels.master().await);
        move_sentinels(&sentinels, to_sentinels_master.addr()).await?;

        let cluster = Cluster::start().await;
        let to_cluster: Vec<_> = cluster.nodes().iter().map(network).collect();
        move_cluster(&cluster, &to_cluster).await;

        let voting = join_all((0..VOTES).map(|_| Server::start())).await;
        let to_voting: Vec<_> = voting.iter().map(network).collect();
        let vote_terms = voters().await;

        Ok(Self {
            server: to_master.url(),
            sentinels: sentinels.url(),
            cluster: cluster.url(),
            votes: redlock_url(to_voting.iter().map(Proxy::addr)),
            vote_terms,
            _servers: once(master).chain(replicas).chain(voting).collect(),
            _sentinels: sentinels,
            _cluster: cluster,
            _networks: [to_master, to_sentinels_master]
                .into_iter()
                .chain(to_cluster)
                .chain(to_voting)
                .collect(),
        })
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn subjects(&self) -> [(&'static str, Subject<'_>); 7] {
        let plain = |url| Some((url, Terms::default()));
        let replicated = |replicas| Some((&*self.server, Terms { replicas, ..Terms::default() }));
        [
            ("PING", None),
            ("this, one server", plain(&*self.server)),
            ("this, Sentinel", plain(&self.sentinels)),
            ("this, Cluster", plain(&self.cluster)),
            ("this, replicas(1)", replicated(1)),
            ("this, replicas(2)", replicated(2)),
            ("this, Redlock", Some((&self.votes, self.vote_terms))),
        ]
    }
}

/// A long way to a server.
fn network(server: &Server) -> Proxy {
    let network = Proxy::start(server.addr());
    network.both_ways(Mode::Delay(DISTANCE));
    network
}

/// Two replicas of a master, which they find at an address that leads to it.
pub(super) async fn replicas_of(master: &Server, address: SocketAddr) -> Vec<Server> {
    let settings = format!("replicaof {} {}", address.ip(), address.port());
    let replicas = (0..REPLICAS).map(|_| Server::builder().config(&settings).start());
    let replicas = join_all(replicas).await;
    master.wait_for_replicas(REPLICAS).await;
    replicas
}

/// Has sentinels see their master, and name it, at an address that leads to it.
async fn move_sentinels(sentinels: &Sentinels, master: SocketAddr) -> Result<()> {
    for sentinel in sentinels.sentinels() {
        let mut connection = connect_by_hand(&sentinel.url()).await?;
        let mut commands = redis::pipe();
        commands.cmd("SENTINEL").arg("REMOVE").arg(SERVICE);
        let monitor = commands.cmd("SENTINEL").arg("MONITOR").arg(SERVICE);
        monitor.arg(master.ip().to_string()).arg(master.port()).arg(2);
        commands.exec_async(&mut connection).await?;
    }
    Ok(())
}

/// Has the nodes of a cluster name themselves by addresses that lead to them.
async fn move_cluster(cluster: &Cluster, networks: &[Proxy]) {
    for (node, network) in networks.iter().enumerate() {
        let port = network.addr().port();
        cluster.run(node, &format!("CONFIG SET cluster-announce-port {port}")).await;
    }
    eventually("all nodes know the new addresses", LIMIT, async || {
        for node in 0..networks.len() {
            let known: String = cluster.query(node, "CLUSTER NODES").await;
            if !networks.iter().all(|network| known.contains(&format!("{}@", network.addr()))) {
                return false;
            }
        }
        true
    })
    .await;
    cluster.wait_until_healthy().await;
}
