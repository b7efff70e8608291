//! Moves of slots between nodes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::join_all;
use harness::{Cluster, eventually};
use lock_runtime::{LockError, LockManager};
use tokio::sync::Mutex;

use crate::support::{SOON, ms, pttl};

#[tokio::test]
async fn f83_follows_a_slot_to_another_node() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let from = cluster.owner("k").await;
    let to = (from + 1) % 3;
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    let fence = guard.fence();
    let waiter = tokio::spawn(locks.lock("k").ttl(ms(1_000)).wait(SOON * 2).into_future());
    cluster.begin_move("k", from, to).await;
    cluster.move_keys("k", from, to).await;
    // The move is incomplete: the lock is redirected to the other node and renewed there.
    let mut target = cluster.nodes()[to].connection().await;
    eventually("the lock is renewed on the other node", SOON, async || {
        redis::cmd("ASKING").exec_async(&mut target).await.unwrap();
        pttl(&mut target, "k").await > 800
    })
    .await;
    cluster.end_move("k", from, to).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fence() > fence);
    next.release().await.unwrap();
}

/// Scripts are refused while their keys are spread over two nodes.
#[tokio::test]
async fn f83_retries_requests_while_a_slot_moves() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let from = cluster.owner("k").await;
    let to = (from + 1) % 3;
    locks.lock("k").await.unwrap().release().await.unwrap(); // creates the counter
    cluster.begin_move("k", from, to).await;
    let began = Instant::now();
    let request = locks.lock("k").wait(SOON).into_future();
    let ends = async {
        let error = locks.lock("k").await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("is being moved"), "{error}");
        cluster.move_keys("k", from, to).await;
        cluster.end_move("k", from, to).await;
    };
    let (guard, ()) = tokio::join!(request, ends);
    guard.unwrap().release().await.unwrap();
    assert!(began.elapsed() < SOON);
}

/// Fences grow wherever the slot is.
#[tokio::test]
async fn f83_grants_one_holder_at_a_time_while_a_slot_moves() {
    const HOLDERS: usize = 8;
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let (is_over, last, turns) = (AtomicBool::new(false), Mutex::new(None), AtomicUsize::new(0));
    let hold = async |key: &str| {
        while !is_over.load(Ordering::Relaxed) {
            let guard = locks.lock(key).ttl(SOON).wait(SOON * 6).await.unwrap();
            if key == "k" {
                let mut last = last.try_lock().expect("there is one holder");
                assert!(*last < Some(guard.fence()), "{last:?}, {}", guard.fence());
                *last = Some(guard.fence());
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                drop(last);
            }
            guard.release().await.unwrap();
        }
    };
    let moves = async {
        for _ in 0..6 {
            let (from, before) = (cluster.owner("k").await, turns.load(Ordering::Relaxed));
            let to = (from + 1) % 3;
            cluster.begin_move("k", from, to).await;
            cluster.move_keys("k", from, to).await;
            cluster.end_move("k", from, to).await;
            eventually("all tasks have turns", SOON * 2, async || {
                turns.load(Ordering::Relaxed) > before + HOLDERS
            })
            .await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let others = (0..4).map(|n| format!("other:{n}"));
    let keys: Vec<_> = (0..HOLDERS).map(|_| "k".to_owned()).chain(others).collect();
    tokio::join!(join_all(keys.iter().map(|key| hold(key))), moves);
}

/// The slot comes from a node with a greater epoch, whose counter has lost some increments.
#[tokio::test]
async fn f83_grows_fences_when_a_slot_moves_to_an_older_epoch() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    // The nodes by epoch, each with a key of its slots.
    let mut nodes = BTreeMap::new();
    for n in 0.. {
        let key = format!("order:{n}");
        let node = cluster.owner(&key).await;
        let info: String = cluster.query(node, "CLUSTER INFO").await;
        let epoch = info.lines().find_map(|line| line.strip_prefix("cluster_my_epoch:"));
        nodes.insert(epoch.unwrap().parse::<u64>().unwrap(), (node, key));
        if nodes.len() == 3 {
            break;
        }
    }
    let (_, (to, other)) = nodes.pop_first().unwrap();
    let (_, (from, key)) = nodes.pop_last().unwrap();
    let guard = locks.lock(&key).await.unwrap();
    let fence = guard.fence();
    guard.release().await.unwrap();
    let keys: Vec<String> = cluster.query(from, "KEYS lock-runtime:fence:*").await;
    cluster.run(from, &format!("DECRBY {} 5", keys[0])).await;
    cluster.begin_move(&key, from, to).await;
    cluster.move_keys(&key, from, to).await;
    // The client learns the epoch right before the node gets a greater one.
    locks.lock(&other).await.unwrap().release().await.unwrap();
    cluster.end_move(&key, from, to).await;

    let guard = locks.lock(&key).await.unwrap();
    assert!(guard.fence() > fence, "{} after {fence}", guard.fence());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn f83_reports_a_slot_without_a_node_at_start() {
    let cluster = Cluster::start().await;
    for node in 0..6 {
        cluster.run(node, "CLUSTER DELSLOTS 7").await;
    }
    let error = LockManager::connect(cluster.url()).await.unwrap_err().to_string();
    assert!(error.contains("no node of the cluster owns slot 7"), "{error}");
}
