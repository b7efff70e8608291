//! Failover of a master to its replica.

use std::time::Instant;

use futures_util::future::join_all;
use harness::{Cluster, run};
use lock_runtime::LockManager;

use crate::support::{SOON, ms, wait_until_renewed};

#[tokio::test]
async fn f82_follows_the_replica_of_a_killed_master() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let guard = locks.lock("k").ttl(SOON).await.unwrap();
    let fence = guard.fence();
    guard.release().await.unwrap();
    let owner = cluster.owner("k").await;
    cluster.nodes()[owner].kill();
    let killed = Instant::now();
    let others = ["a", "b", "c", "d", "e", "f"].map(async |key| {
        locks.lock(key).wait(SOON * 4).await.unwrap().release().await.unwrap();
    });
    let (guard, _) = tokio::join!(locks.lock("k").wait(SOON * 4).into_future(), join_all(others));
    let guard = guard.unwrap();
    println!("granted {:?} after the master was killed", killed.elapsed());
    assert!(guard.fence() > fence);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn f79_keeps_a_lock_over_a_planned_failover() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let owner = cluster.owner("k").await;
    let guard = locks.lock("k").ttl(ms(6_000)).await.unwrap();
    let fence = guard.fence();
    cluster.fail_over(owner + 3, "").await;
    wait_until_renewed(&mut cluster.nodes()[owner + 3].connection().await, "k", 4_800).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    let next = locks.lock("k").await.unwrap();
    assert!(next.fence() > fence);
    next.release().await.unwrap();
}

/// The next master has lost the counter; its greater epoch makes up for that.
#[tokio::test]
async fn f82_grows_fences_when_the_next_master_lost_some() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let owner = cluster.owner("k").await;
    let guard = locks.lock("k").await.unwrap();
    let mut fence = guard.fence();
    guard.release().await.unwrap();
    let keys: Vec<String> = cluster.query(owner, "KEYS lock-runtime:fence:*").await;
    let mut redis = cluster.nodes()[owner].connection().await;
    let ahead = fence.get() + 3 * 3_600_000_000; // as if the clock had been three hours ahead
    run(&mut redis, &format!("SET {} {ahead}", keys[0])).await;
    let guard = locks.lock("k").await.unwrap();
    assert!(guard.fence().get() > ahead);
    fence = fence.max(guard.fence());
    guard.release().await.unwrap();
    run(&mut redis, &format!("DEL {}", keys[0])).await;
    run(&mut redis, "WAIT 1 5000").await;
    cluster.nodes()[owner].kill();
    let guard = locks.lock("k").wait(SOON * 4).await.unwrap();
    assert!(guard.fence() > fence, "{} after {fence}", guard.fence());
    guard.release().await.unwrap();
}

/// A node becomes the master a second time. The client still has its old connection, but the node
/// lacks the grants of the master in between.
#[tokio::test]
async fn f82_grows_fences_over_an_old_connection_to_a_master() {
    let cluster = Cluster::start_with(|server| server.config("cluster-node-timeout 60000")).await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let others = LockManager::connect(cluster.url()).await.unwrap();
    let first = cluster.owner("k").await;
    let between = first + 3;
    locks.lock("k").await.unwrap().release().await.unwrap();

    cluster.fail_over(between, "").await;
    cluster.wait_until_healthy().await;
    others.lock("k").await.unwrap().release().await.unwrap();
    cluster.nodes()[first].pause();
    cluster.run(between, "CLIENT KILL TYPE replica").await; // stops replication
    let guard = others.lock("k").await.unwrap();
    let fence = guard.fence();
    guard.release().await.unwrap();
    cluster.nodes()[between].kill();
    cluster.nodes()[first].resume();
    tokio::time::sleep(ms(100)).await; // as long as an epoch counts as current
    cluster.fail_over(first, "TAKEOVER").await;

    let guard = locks.lock("k").wait(SOON).await.unwrap();
    assert!(guard.fence() > fence, "{} after {fence}", guard.fence());
    guard.release().await.unwrap();
}
