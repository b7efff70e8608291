//! Locks in a cluster.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::join_all;
use harness::{Cluster, Server, eventually, run};
use lock_runtime::{LockError, LockManager};
use tokio::sync::Mutex;

use crate::support::{SOON, ms, pttl, wait_until_renewed};

#[tokio::test]
async fn keys_of_all_shapes_and_slots_are_locked_and_handed_over() {
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

#[tokio::test]
async fn f83_a_lock_follows_its_slot_to_another_node() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let from = cluster.owner("k").await;
    let to = (from + 1) % 3;
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    let fence = guard.fence();
    let waiter = tokio::spawn(locks.lock("k").ttl(ms(1_000)).wait(SOON * 2).into_future());
    cluster.begin_move("k", from, to).await;
    cluster.move_keys("k", from, to).await;
    // Half moved: the lock is asked for at the other node, and renewed there.
    let mut target = cluster.nodes()[to].connection().await;
    eventually("it is renewed where it is now", SOON, async || {
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

/// Scripts with keys here and there are refused for as long as a slot moves.
#[tokio::test]
async fn f83_requests_during_a_move_are_tried_again() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let from = cluster.owner("k").await;
    let to = (from + 1) % 3;
    locks.lock("k").await.unwrap().release().await.unwrap(); // there is a counter now
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

/// One at a time holds a lock, with growing fences, wherever its slot is.
#[tokio::test]
async fn f83_a_slot_moves_from_node_to_node_under_load() {
    const HOLDERS: usize = 8;
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let (is_over, last, turns) = (AtomicBool::new(false), Mutex::new(None), AtomicUsize::new(0));
    let hold = async |key: &str| {
        while !is_over.load(Ordering::Relaxed) {
            let guard = locks.lock(key).ttl(SOON).wait(SOON * 6).await.unwrap();
            if key == "k" {
                let mut last = last.try_lock().expect("nobody else holds it");
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
            eventually("the lock goes round", SOON * 2, async || {
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

#[tokio::test]
async fn f82_a_killed_master_is_followed_by_its_replica() {
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
async fn f79_a_planned_failover_loses_no_lock() {
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

/// The next master has lost the counter; its epoch makes up for that.
#[tokio::test]
async fn f82_fences_grow_though_the_next_master_has_lost_some() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    let owner = cluster.owner("k").await;
    let guard = locks.lock("k").await.unwrap();
    let mut fence = guard.fence();
    guard.release().await.unwrap();
    let keys: Vec<String> = cluster.query(owner, "KEYS lock-runtime:fence:*").await;
    let mut redis = cluster.nodes()[owner].connection().await;
    let ahead = fence.get() + 3 * 3_600_000_000; // as by a clock that is ahead by three hours
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

/// A node that was the master before, and still has the connection of that time, but not the grants
/// of the master between.
#[tokio::test]
async fn f82_fences_grow_though_an_old_connection_leads_to_a_master_again() {
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
    cluster.run(between, "CLIENT KILL TYPE replica").await; // else it still hears of what follows
    let guard = others.lock("k").await.unwrap();
    let fence = guard.fence();
    guard.release().await.unwrap();
    cluster.nodes()[between].kill();
    cluster.nodes()[first].resume();
    tokio::time::sleep(ms(100)).await; // as long as an epoch is believed
    cluster.fail_over(first, "TAKEOVER").await;

    let guard = locks.lock("k").wait(SOON).await.unwrap();
    assert!(guard.fence() > fence, "{} after {fence}", guard.fence());
    guard.release().await.unwrap();
}

/// A slot comes from a node with a greater epoch, where the counter had lost some.
#[tokio::test]
async fn f83_fences_grow_though_a_slot_moves_to_a_node_that_was_behind() {
    let cluster = Cluster::start().await;
    let locks = LockManager::connect(cluster.url()).await.unwrap();
    // Each node, with its epoch and a key there.
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
    // The epoch is told right before the node has a greater one.
    locks.lock(&other).await.unwrap().release().await.unwrap();
    cluster.end_move(&key, from, to).await;

    let guard = locks.lock(&key).await.unwrap();
    assert!(guard.fence() > fence, "{} after {fence}", guard.fence());
    guard.release().await.unwrap();
}

/// Renewals of keys on other nodes do not wait for a node that does not answer.
#[tokio::test]
async fn a_node_that_stands_still_delays_no_other() {
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
    tokio::time::sleep(ms(600)).await; // as long as another lease
    assert!(guards.len() > 2 && guards.iter().all(|guard| !guard.is_lost()));
    cluster.nodes()[stopped].resume();
}

#[tokio::test]
async fn f83_a_slot_without_a_node_is_an_error_at_start() {
    let cluster = Cluster::start().await;
    for node in 0..6 {
        cluster.run(node, "CLUSTER DELSLOTS 7").await;
    }
    let error = LockManager::connect(cluster.url()).await.unwrap_err().to_string();
    assert!(error.contains("no server of the cluster has the slots 7 to 7"), "{error}");
}

#[tokio::test]
async fn urls_of_the_wrong_kind_say_which_one_to_use() {
    let node = Server::builder().config("cluster-enabled yes").start().await;
    let error = LockManager::connect(node.url()).await.unwrap_err().to_string();
    assert!(error.contains("use redis-cluster://"), "{error}");
    let single = Server::start().await;
    let url = format!("redis-cluster://{}", single.addr());
    let error = LockManager::connect(url).await.unwrap_err().to_string();
    assert!(error.contains("cluster support disabled"), "{error}");
    let url = format!("redis-sentinel://{}/orders", single.addr());
    let error = LockManager::connect(url).await.unwrap_err().to_string();
    assert!(error.contains("no sentinel answers"), "{error}");
}
