//! Tests of partitions between servers and clients.

use std::fs;
use std::path::Path;
use std::time::Duration;

use redis::AsyncTypedCommands;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use crate::{Cluster, Sentinels, Server, ServerBuilder, eventually};

const LIMIT: Duration = Duration::from_secs(30);

/// Sends `SET k v` from the server's own node; the error is the error code of the reply.
async fn set_on_its_node(server: &Server) -> Result<(), Option<String>> {
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
async fn deletes_links_and_namespaces_on_drop() {
    let Some(network) = Network::start().await else { return };
    let link = Path::new("/sys/class/net").join(test(network.hub.number));
    assert!(link.exists());
    let server = Server::builder().node(&network.node().await).start().await;
    let process = format!("/proc/{}", network.hub.bridges.id());
    server.connection().await.ping().await.unwrap();
    drop(network);
    server.connection().await.ping().await.unwrap();
    drop(server);
    assert!(!link.exists() && fs::metadata(process).is_err());
}

#[tokio::test]
async fn gives_each_network_its_own_addresses() {
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
async fn isolates_a_cut_node_from_other_nodes_and_the_test() {
    let Some(network) = Network::start().await else { return };
    let server = Server::builder().node(&network.node().await).start().await;
    let (other, stranger) = (network.node().await, network.node().await);
    let addr = server.addr();
    let reach = move || async move {
        match timeout(Duration::from_secs(1), TcpStream::connect(addr)).await {
            Ok(Ok(_)) => "yes",
            Ok(Err(_)) => "no",
            Err(_) => "timeout",
        }
    };
    let from_all = async || [reach().await, other.run(reach).await, server.node().run(reach).await];

    assert_eq!(from_all().await, ["yes", "yes", "yes"]);
    server.node().cut();
    assert_eq!(from_all().await, ["timeout", "timeout", "yes"]);
    assert_eq!(stranger.run(reach).await, "timeout");
    server.node().heal();
    assert_eq!(from_all().await, ["yes", "yes", "yes"]);
    server.node().cut_from_nodes();
    assert_eq!(from_all().await, ["yes", "timeout", "yes"]);
}

#[tokio::test]
async fn keeps_open_connections_during_a_cut() {
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
async fn propagates_a_panic_on_a_node() {
    let Some(network) = Network::start().await else { panic!("not in there") };
    network.node().await.run(|| async { panic!("in there") }).await;
}

#[tokio::test]
async fn lets_a_cut_off_master_of_sentinels_take_local_writes() {
    let Some(network) = Network::start().await else { return };
    let all = Sentinels::start_in(&network, "lock").await;
    let old = all.master().await;
    old.node().cut();
    all.wait_until_replaced(old.port()).await;
    let new = all.master().await;
    eventually("the new master takes writes", LIMIT, async || {
        new.connection().await.set("k", "new").await.is_ok()
    })
    .await;
    assert_eq!(set_on_its_node(old).await, Ok(()));

    old.node().heal();
    eventually("the old master is a replica in sync", LIMIT, async || {
        // The sentinels make it drop its clients.
        old.try_query("GET k").await == Ok("new".to_owned())
    })
    .await;
    assert_eq!(set_on_its_node(old).await, Err(Some("READONLY".to_owned())));
}

#[tokio::test]
async fn stops_a_cut_off_master_of_a_cluster_after_the_timeout() {
    let Some(network) = Network::start().await else { return };
    let settings = |server: ServerBuilder| server.config("cluster-node-timeout 2000");
    let cluster = Cluster::start_in(&network, settings).await;
    let owner = cluster.owner("k").await;
    let old = &cluster.nodes()[owner];
    old.node().cut();
    assert_eq!(set_on_its_node(old).await, Ok(()));
    eventually("its replica is promoted", LIMIT, async || cluster.owner("k").await == owner + 3)
        .await;
    let new = &cluster.nodes()[owner + 3];
    eventually("the new master takes writes", LIMIT, async || {
        new.connection().await.set("k", "new").await.is_ok()
    })
    .await;
    eventually("the old master notices that it is alone", LIMIT, async || {
        set_on_its_node(old).await == Err(Some("CLUSTERDOWN".to_owned()))
    })
    .await;

    old.node().heal();
    eventually("the old master is a replica", LIMIT, async || {
        set_on_its_node(old).await == Err(Some("MOVED".to_owned()))
    })
    .await;
}
