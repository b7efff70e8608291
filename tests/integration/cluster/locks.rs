//! Keys in all slots, renewals, URLs.

use futures_util::future::join_all;
use harness::{Cluster, Server};
use lock_runtime::LockManager;

use crate::support::{SOON, ms};

#[tokio::test]
async fn locks_and_hands_over_keys_of_all_slots() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let odd = ["a}b", "}{", "{}", "order:{42}:x", "{a}", "a", "a{b", "a{}b{c}d"].map(String::from);
    let keys: Vec<String> = (0..40).map(|n| format!("order:{n}")).chain(odd).collect();
    join_all(keys.iter().map(async |key| {
        let guard = locks.lock(key).await.unwrap();
        assert!(locks.lock(key).await.unwrap_err().is_busy());
        let next = tokio::spawn(locks.lock(key).wait(SOON).into_future());
        let fence = guard.fence();
        tokio::task::yield_now().await;
        guard.release().await.unwrap();
        let next = next.await.unwrap().unwrap();
        assert!(next.fence() > fence);
        next.release().await.unwrap();
    }))
    .await;
    let mut left = 0;
    for node in 0..3 {
        let keys: Vec<String> = cluster.query(node, "KEYS *").await;
        left += keys.iter().filter(|key| !key.contains("fence")).count();
    }
    assert_eq!(left, 0);
}

/// Renewals on other nodes do not wait for a node that does not reply.
#[tokio::test]
async fn renews_on_other_nodes_while_one_is_paused() {
    let cluster = Cluster::start_with(|server| server.config("cluster-node-timeout 60000")).await;
    let locks = LockManager::builder().timeout(SOON).connect(cluster.url()).await.unwrap();
    let stopped = cluster.owner("k").await;
    let mut guards = Vec::new();
    for n in 0..12 {
        let key = format!("other:{n}");
        if cluster.owner(&key).await != stopped {
            guards.push(locks.lock(key).ttl(ms(600)).await.unwrap());
        }
    }
    let held = locks.lock("k").ttl(ms(600)).await.unwrap();
    cluster.nodes()[stopped].pause();
    held.lost().await;
    tokio::time::sleep(ms(600)).await; // for another ttl
    assert!(guards.len() > 2 && guards.iter().all(|guard| !guard.is_lost()));
    cluster.nodes()[stopped].resume();
}

#[tokio::test]
async fn suggests_the_right_kind_of_url() {
    let node = Server::builder().config("cluster-enabled yes").start().await;
    let error = LockManager::connect(node.url()).await.unwrap_err().to_string();
    assert!(error.contains("use redis-cluster://"), "{error}");
    let single = Server::start().await;
    let url = format!("redis-cluster://{}", single.addr());
    let error = LockManager::connect(url).await.unwrap_err().to_string();
    assert!(error.contains("cluster support disabled"), "{error}");
    let url = format!("redis-sentinel://{}/orders", single.addr());
    let error = LockManager::connect(url).await.unwrap_err().to_string();
    assert!(error.contains("no sentinel replies"), "{error}");
}
