//! A cluster whose master is cut off and whose replica is promoted.

use std::time::{Duration, Instant};

use harness::{Cluster, Network, ServerBuilder, eventually};
use lock_runtime::{LockManager, LossCause};

use super::{Data, LIMIT, acquire, acquire_on, connect, wait_until_due, wait_until_empty};
use crate::support::{SOON, ms, wait_for_waiters};

const TTL: Duration = ms(8_000);

/// The replica has not received the lock that the old master grants, and is promoted before it
/// expires.
#[tokio::test]
async fn f82_orders_holders_on_both_sides_of_a_cut_by_fence() {
    let Some(network) = Network::start().await else { return };
    let settings = |server: ServerBuilder| server.config("cluster-node-timeout 2000");
    let cluster = Cluster::start_in(&network, settings).await;
    let owner = cluster.owner("k").await;
    let node = cluster.nodes()[owner].node();
    let beside = connect(node, LockManager::builder(), cluster.url()).await;
    let data = Data::default();

    node.cut();
    let older = acquire_on(node, beside.lock("k").ttl(TTL)).await;
    let taken = Instant::now();
    let first = async {
        let stopped = older.run(data.keep_writing(older.fence())).await;
        (stopped, taken.elapsed())
    };
    let second = async {
        eventually("the replica is promoted", LIMIT, async || {
            cluster.owner("k").await == owner + 3
        })
        .await;
        let locks = LockManager::connect(cluster.url()).await.unwrap();
        let younger = acquire(&locks, TTL).await;
        println!("both hold the lock for {:?}", older.remaining());
        assert!(data.write(younger.fence()), "{} after {}", younger.fence(), older.fence());
        younger
    };
    let ((stopped, held), younger) = tokio::join!(first, second);
    assert!(stopped.unwrap_err().is_lost());
    assert!(held < TTL, "a master without replicas renewed it: {held:?}");
    assert!(!data.write(older.fence()), "a late write was accepted");
    assert!(data.write(younger.fence()));

    node.heal();
    drop(older);
    let fence = younger.fence();
    younger.release().await.unwrap();
    wait_until_empty(cluster.nodes()).await;
    let next = acquire_on(node, beside.lock("k").ttl(TTL).wait(SOON)).await;
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    drop(next);
    wait_until_empty(cluster.nodes()).await;
}

/// The old master renews the lease while it is alone, but the replica does not acknowledge that.
/// The next master has no replica to acknowledge anything.
#[tokio::test]
async fn f82_grants_one_holder_over_a_cut_with_replicas() {
    let Some(network) = Network::start().await else { return };
    let cluster = Cluster::start_in(&network, |server| server).await;
    let owner = cluster.owner("k").await;
    let node = cluster.nodes()[owner].node();
    let beside = connect(node, LockManager::builder().replicas(1), cluster.url()).await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();

    let older = acquire_on(node, beside.lock("k").ttl(TTL).wait(SOON)).await;
    let second = async {
        let younger = acquire(&locks, TTL).await;
        assert!(older.is_lost(), "two holders, one of them for {:?} more", older.remaining());
        younger
    };
    let cut = async {
        wait_for_waiters(&mut cluster.nodes()[owner].connection().await, "k", 1).await;
        wait_until_due(&older, TTL).await;
        node.cut();
    };
    let (younger, ()) = tokio::join!(second, cut);
    assert_eq!(older.lost().await, LossCause::Expired);
    assert!(younger.fence() > older.fence());

    node.heal();
    drop(older);
    let fence = younger.fence();
    younger.release().await.unwrap();
    cluster.wait_until_healthy().await;
    let next = acquire_on(node, beside.lock("k").ttl(TTL).wait(SOON)).await;
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    drop(next);
    wait_until_empty(cluster.nodes()).await;
}
