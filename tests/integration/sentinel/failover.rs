//! Failover by sentinels.

use std::collections::HashMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use harness::{Sentinels, eventually, run};
use lock_runtime::LockManager;
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;

use crate::support::{SOON, ms, wait_until_renewed};

#[tokio::test]
async fn f80_follows_the_successor_of_a_killed_master() {
    let sentinels = Sentinels::start("orders").await;
    let locks = LockManager::connect(sentinels.url()).await.unwrap();
    let before = locks.lock("k").await.unwrap();
    let fence = before.fence();
    before.release().await.unwrap();

    let master = sentinels.master().await;
    master.kill();
    let killed = Instant::now();
    let guard = locks.lock("k").ttl(SOON).wait(SOON * 6).await.unwrap();
    println!("granted {:?} after the master was killed", killed.elapsed());
    assert!(guard.fence() > fence);
    sentinels.wait_until_replaced(master.port()).await;
    guard.release().await.unwrap();
}

/// After a planned failover, the old master accepts writes for seconds.
#[tokio::test]
async fn f79_leaves_a_replaced_master_at_once() {
    let sentinels = Sentinels::start("orders").await;
    let locks = LockManager::connect(sentinels.url()).await.unwrap();
    let guard = locks.lock("k").ttl(ms(6_000)).await.unwrap();
    let fence = guard.fence();
    sentinels.master().await.wait_for_replicas(2).await; // or the next master lacks the lock
    sentinels.fail_over().await;
    wait_until_renewed(&mut sentinels.master().await.connection().await, "k", 4_800).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    let next = locks.lock("k").await.unwrap();
    assert!(next.fence() > fence);
    next.release().await.unwrap();
}

#[tokio::test]
async fn f80_keeps_the_places_of_waiters_over_a_failover() {
    let sentinels = Sentinels::start("orders").await;
    let locks = LockManager::connect(sentinels.url()).await.unwrap();
    let guard = locks.lock("k").ttl(SOON).await.unwrap();
    let mut master = sentinels.master().await.connection().await;
    let mut turns = Vec::new();
    for n in 0..4 {
        let request = locks.lock("k").ttl(SOON).wait(SOON * 6);
        turns.push(tokio::spawn(async move { (n, request.await.unwrap()) }));
        crate::support::wait_for_waiters(&mut master, "k", n + 1).await;
    }
    let entries_before = peers(&mut master).await;
    sentinels.master().await.wait_for_replicas(2).await;
    sentinels.fail_over().await;
    let mut master = sentinels.master().await.connection().await;
    eventually("all have polled the new master", SOON, async || {
        let now = peers(&mut master).await;
        entries_before.iter().all(|(token, entry)| now.get(token).is_some_and(|now| now != entry))
    })
    .await;
    guard.release().await.unwrap();
    let mut fences = Vec::new();
    for turn in join_all(turns.into_iter().map(|turn| async {
        let (n, guard) = turn.await.unwrap();
        let fence = guard.fence();
        guard.release().await.unwrap();
        (fence, n)
    }))
    .await
    {
        fences.push(turn);
    }
    fences.sort_unstable();
    let order: Vec<_> = fences.into_iter().map(|(_, n)| n).collect();
    assert_eq!(order, [0, 1, 2, 3]);
}

/// Returns the server's entries of waiters.
async fn peers(redis: &mut MultiplexedConnection) -> HashMap<String, String> {
    redis.hgetall("{k}:peers").await.unwrap()
}

/// A master whose data and clock are behind still gives greater numbers.
#[tokio::test]
async fn f73_grows_fences_when_the_next_master_lost_some() {
    let sentinels = Sentinels::start("orders").await;
    let locks = LockManager::connect(sentinels.url()).await.unwrap();
    let master = sentinels.master().await;
    // As if the clock had been three hours ahead.
    let ahead = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ahead = ahead.as_micros() + 3 * 3_600_000_000;
    run(&mut master.connection().await, &format!("SET lock-runtime:fence {ahead}")).await;
    let guard = locks.lock("k").await.unwrap();
    let fence = guard.fence();
    assert!(u128::from(fence.get()) > ahead);
    guard.release().await.unwrap();
    run(&mut master.connection().await, "SET lock-runtime:fence 7").await;
    master.wait_for_replicas(2).await;
    master.kill();
    let guard = locks.lock("k").wait(SOON * 6).await.unwrap();
    assert!(guard.fence() > fence, "{} after {fence}", guard.fence());
    guard.release().await.unwrap();
}
