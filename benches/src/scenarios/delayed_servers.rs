//! Servers behind proxies that delay them, so that only round trips matter.

use std::iter::once;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use harness::{Cluster, Mode, Proxy, Sentinels, Server, eventually, redlock_url};

use super::topologies::{REDLOCK_SERVERS, redlock_settings};
use crate::contenders::{Settings, connect_raw};

/// The delay of each direction.
pub(super) const ONE_WAY_DELAY: Duration = Duration::from_millis(10);

const LIMIT: Duration = Duration::from_secs(30);
const REPLICAS: usize = 2;
const SERVICE: &str = "locks";

/// A URL with its settings, or `None` for a `PING`.
type Subject<'a> = Option<(&'a str, Settings)>;

/// Delayed servers of every topology.
#[derive(Debug)]
pub(super) struct DelayedServers {
    server: String,
    sentinels: String,
    cluster: String,
    redlock: String,
    redlock_settings: Settings,
    _servers: Vec<Server>,
    _sentinels: Sentinels,
    _cluster: Cluster,
    _proxies: Vec<Proxy>,
}

impl DelayedServers {
    pub(super) async fn start() -> Result<Self> {
        let master = Server::start().await;
        let master_proxy = delay(&master);
        let replicas = replicas_of(&master, master_proxy.addr()).await;

        let sentinels = Sentinels::start(SERVICE).await;
        let sentinels_proxy = delay(sentinels.master().await);
        monitor_through_proxy(&sentinels, sentinels_proxy.addr()).await?;

        let cluster = Cluster::start().await;
        let cluster_proxies: Vec<_> = cluster.nodes().iter().map(delay).collect();
        announce_proxies(&cluster, &cluster_proxies).await;

        let redlock = join_all((0..REDLOCK_SERVERS).map(|_| Server::start())).await;
        let redlock_proxies: Vec<_> = redlock.iter().map(delay).collect();
        let redlock_settings = redlock_settings().await;

        Ok(Self {
            server: master_proxy.url(),
            sentinels: sentinels.url(),
            cluster: cluster.url(),
            redlock: redlock_url(redlock_proxies.iter().map(Proxy::addr)),
            redlock_settings,
            _servers: once(master).chain(replicas).chain(redlock).collect(),
            _sentinels: sentinels,
            _cluster: cluster,
            _proxies: [master_proxy, sentinels_proxy]
                .into_iter()
                .chain(cluster_proxies)
                .chain(redlock_proxies)
                .collect(),
        })
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn subjects(&self) -> [(&'static str, Subject<'_>); 7] {
        let plain = |url| Some((url, Settings::default()));
        let replicated =
            |replicas| Some((&*self.server, Settings { replicas, ..Settings::default() }));
        [
            ("PING", None),
            ("this, one server", plain(&*self.server)),
            ("this, Sentinel", plain(&self.sentinels)),
            ("this, Cluster", plain(&self.cluster)),
            ("this, replicas(1)", replicated(1)),
            ("this, replicas(2)", replicated(2)),
            ("this, Redlock", Some((&self.redlock, self.redlock_settings))),
        ]
    }
}

/// Starts a proxy that delays a server.
fn delay(server: &Server) -> Proxy {
    let proxy = Proxy::start(server.addr());
    proxy.both_ways(Mode::Delay(ONE_WAY_DELAY));
    proxy
}

/// Starts two replicas, which connect to their master at `address`.
pub(super) async fn replicas_of(master: &Server, address: SocketAddr) -> Vec<Server> {
    let settings = format!("replicaof {} {}", address.ip(), address.port());
    let replicas = (0..REPLICAS).map(|_| Server::builder().config(&settings).start());
    let replicas = join_all(replicas).await;
    master.wait_for_replicas(REPLICAS).await;
    replicas
}

/// Makes sentinels monitor their master, and name it, at the address of its proxy.
async fn monitor_through_proxy(sentinels: &Sentinels, master: SocketAddr) -> Result<()> {
    for sentinel in sentinels.sentinels() {
        let mut connection = connect_raw(&sentinel.url()).await?;
        let mut commands = redis::pipe();
        commands.cmd("SENTINEL").arg("REMOVE").arg(SERVICE);
        let monitor = commands.cmd("SENTINEL").arg("MONITOR").arg(SERVICE);
        monitor.arg(master.ip().to_string()).arg(master.port()).arg(2);
        commands.exec_async(&mut connection).await?;
    }
    Ok(())
}

/// Makes the nodes of a cluster announce the addresses of their proxies.
async fn announce_proxies(cluster: &Cluster, proxies: &[Proxy]) {
    for (node, proxy) in proxies.iter().enumerate() {
        let port = proxy.addr().port();
        cluster.run(node, &format!("CONFIG SET cluster-announce-port {port}")).await;
    }
    eventually("all nodes know the new addresses", LIMIT, async || {
        for node in 0..proxies.len() {
            let known: String = cluster.query(node, "CLUSTER NODES").await;
            if !proxies.iter().all(|proxy| known.contains(&format!("{}@", proxy.addr()))) {
                return false;
            }
        }
        true
    })
    .await;
    cluster.wait_until_healthy().await;
}
