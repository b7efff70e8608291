//! What a network does to real servers and their clients.

use std::fs;
use std::path::Path;
use std::time::Duration;

use redis::AsyncTypedCommands;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use crate::{Cluster, Sentinels, Server, ServerBuilder, eventually};

const LIMIT: Duration = Duration::from_secs(30);

/// What `SET k v` at a server says to a client on the server's own node.
async fn set_beside(server: &Server) -> Result<(), Option<String>> {
    let url = server.url();
    let set = move || async move {
        let client = redis::Client::open(url).unwrap();
        let mut redis = client.get_multiplexed_async_connection().await.unwrap();
        redis.set("k", "v").await
    };
    let reply: redis::RedisResult<()> = server.node().run(set).await;
    reply.map_err(|error| error.code().map(str::to_owned))
}

#[tokio::test]
async fn is_gone_when_dropped() {
    let Some(network) = Network::start().await else { return };
    let cable = Path::new("/sys/class/net").join(test(network.hub.number));
    assert!(cable.exists());
    let server = Server::builder().node(&network.node().await).start().await;
    let process = format!("/proc/{}", network.hub.switches.id());
    server.connection().await.ping().await.unwrap();
    drop(network);
    server.connection().await.ping().await.unwrap();
    drop(server);
    assert!(!cable.exists() && fs::metadata(process).is_err());
}

#[tokio::test]
async fn networks_have_addresses_of_their_own() {
    let mut networks = Vec::new();
    for _ in 0..10 {
        let Some(network) = Network::start().await else { return };
        let server = Server::builder().node(&network.node().await).start().await;
        networks.push((network, server));
    }
    for (network, server) in &networks {
        server.connection().await.set("k", server.port()).await.unwrap();
        network.node().await;
    }
    for (_, server) in &networks {
        let own = Some(server.port().to_string());
        assert_eq!(server.connection().await.get("k").await.unwrap(), own);
    }
}

#[tokio::test]
async fn a_cut_node_is_reached_by_nobody_but_its_own() {
    let Some(network) = Network::start().await else { return };
    let server = Server::builder().node(&network.node().await).start().await;
    let (other, stranger) = (network.node().await, network.node().await);
    let addr = server.addr();
    let reach = move || async move {
        match timeout(Duration::from_secs(1), TcpStream::connect(addr)).await {
            Ok(Ok(_)) => "yes",
            Ok(Err(_)) => "no",
            Err(_) => "silence",
        }
    };
    let from_all = async || [reach().await, other.run(reach).await, server.node().run(reach).await];

    assert_eq!(from_all().await, ["yes", "yes", "yes"]);
    server.node().cut();
    assert_eq!(from_all().await, ["silence", "silence", "yes"]);
    assert_eq!(stranger.run(reach).await, "silence");
    server.node().heal();
    assert_eq!(from_all().await, ["yes", "yes", "yes"]);
    server.node().cut_from_nodes();
    assert_eq!(from_all().await, ["yes", "silence", "yes"]);
}

#[tokio::test]
async fn an_open_connection_outlives_a_cut() {
    let Some(network) = Network::start().await else { return };
    let server = Server::builder().node(&network.node().await).start().await;
    let mut redis = server.connection().await;
    server.node().cut();
    let reply = tokio::spawn(async move { redis.ping().await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!reply.is_finished());
    server.node().heal();
    reply.await.unwrap().unwrap();
}

#[tokio::test]
#[should_panic(expected = "in there")]
async fn a_panic_on_a_node_is_one_of_the_test() {
    let Some(network) = Network::start().await else { panic!("not in there") };
    network.node().await.run(|| async { panic!("in there") }).await;
}

#[tokio::test]
async fn a_master_of_sentinels_that_is_cut_off_goes_on_for_those_beside_it() {
    let Some(network) = Network::start().await else { return };
    let all = Sentinels::start_in(&network, "lock").await;
    let old = all.master().await;
    old.node().cut();
    all.switched(old.port()).await;
    let new = all.master().await;
    eventually("the new master takes writes", LIMIT, async || {
        new.connection().await.set("k", "new").await.is_ok()
    })
    .await;
    assert_eq!(set_beside(old).await, Ok(()));

    old.node().heal();
    eventually("the old master is a replica in sync", LIMIT, async || {
        old.connection().await.get("k").await == Ok(Some("new".to_owned()))
    })
    .await;
    assert_eq!(set_beside(old).await, Err(Some("READONLY".to_owned())));
}

#[tokio::test]
async fn a_master_of_a_cluster_that_is_cut_off_stops_after_the_node_timeout() {
    let Some(network) = Network::start().await else { return };
    let settings = |server: ServerBuilder| server.config("cluster-node-timeout 2000");
    let cluster = Cluster::start_in(&network, settings).await;
    let owner = cluster.owner("k").await;
    let old = &cluster.nodes()[owner];
    old.node().cut();
    assert_eq!(set_beside(old).await, Ok(()));
    eventually("its replica takes its place", LIMIT, async || {
        cluster.owner("k").await == owner + 3
    })
    .await;
    let new = &cluster.nodes()[owner + 3];
    eventually("the new master takes writes", LIMIT, async || {
        new.connection().await.set("k", "new").await.is_ok()
    })
    .await;
    eventually("the old master knows that it is alone", LIMIT, async || {
        set_beside(old).await == Err(Some("CLUSTERDOWN".to_owned()))
    })
    .await;

    old.node().heal();
    eventually("the old master is a replica", LIMIT, async || {
        set_beside(old).await == Err(Some("MOVED".to_owned()))
    })
    .await;
}
