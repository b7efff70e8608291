//! Fences: each grant has a greater number than all earlier grants.

use std::sync::Mutex;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use harness::run;
use lock_runtime::{Fence, LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;

use crate::support::{FENCE_KEY, SOON, setup, wait_for_waiters};

/// Acquires `key`, releases it and returns the fence.
async fn fence(locks: &LockManager, key: &str) -> Fence {
    let guard = locks.lock(key).wait(SOON).await.unwrap();
    let fence = guard.fence();
    assert_eq!(guard.lease().fence(), fence);
    guard.release().await.unwrap();
    fence
}

fn assert_growing(fences: &[Fence]) {
    assert!(fences.is_sorted_by(|before, after| before < after), "{fences:?}");
}

#[tokio::test]
async fn grow_over_grants_and_keys() {
    let (server, locks, _) = setup().await;
    let other = LockManager::connect(server.url()).await.unwrap();
    let mut fences = Vec::new();
    for round in 0..50 {
        fences.push(fence(&locks, "k").await);
        fences.push(fence(&other, "k").await);
        fences.push(fence(&locks, &format!("k{round}")).await);
    }
    assert_growing(&fences);
}

#[tokio::test]
async fn grow_in_memory() {
    let locks = LockManager::in_memory();
    let mut fences = Vec::new();
    for round in 0..1_000 {
        fences.push(fence(&locks, "k").await);
        fences.push(fence(&locks, &format!("k{round}")).await);
    }
    fences.push(fence(&LockManager::in_memory(), "k").await); // as after a restart
    assert_growing(&fences);
}

#[tokio::test]
async fn grow_when_a_lock_is_handed_over() {
    const WAITERS: usize = 20;
    let (_server, locks, mut redis) = setup().await;
    let guard = locks.lock("k").await.unwrap();
    let fences = Mutex::new(vec![guard.fence()]);
    let turns = join_all((0..WAITERS).map(async |_| {
        let guard = locks.lock("k").wait(SOON).await.unwrap();
        fences.lock().unwrap().push(guard.fence());
        guard.release().await.unwrap();
    }));
    let release = async {
        wait_for_waiters(&mut redis, "k", WAITERS).await;
        guard.release().await.unwrap();
    };
    tokio::join!(turns, release);
    let mut fences = fences.into_inner().unwrap();
    fences.push(fence(&locks, "k").await);
    assert_eq!(fences.len(), 1 + WAITERS + 1);
    assert_growing(&fences);
}

#[tokio::test]
async fn grow_when_the_server_loses_its_data() {
    let (mut server, locks, mut redis) = setup().await;
    let mut fences = vec![fence(&locks, "k").await];
    for command in ["FLUSHALL SYNC", "SCRIPT FLUSH", "DEL lock-runtime:fence"] {
        run(&mut redis, command).await;
        fences.push(fence(&locks, "k").await);
    }
    for _ in 0..2 {
        server.restart().await; // without its data
        fences.push(fence(&locks, "k").await);
    }
    assert_growing(&fences);
}

/// The counter is set as if the server's clock had been an hour ahead.
#[tokio::test]
async fn grow_when_the_clock_goes_back() {
    const HOUR: u64 = 3_600_000_000;
    let (_server, locks, mut redis) = setup().await;
    let ahead = fence(&locks, "k").await.get() + HOUR;
    redis.set(FENCE_KEY, ahead).await.unwrap();
    for step in 1..=3 {
        assert_eq!(fence(&locks, "k").await.get(), ahead + step);
    }
    let guard = locks.lock("k").await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").wait(SOON).into_future());
    wait_for_waiters(&mut redis, "k", 1).await;
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.fence().get(), ahead + 6, "the waiter has used a number, too");
    guard.release().await.unwrap();
}

#[redis_lock(key = "order:<id>", ttl = "5s", lease = lease, manager = locks)]
async fn pay(
    locks: &LockManager,
    id: u64,
    mut redis: MultiplexedConnection,
) -> Result<[u64; 2], LockError> {
    let last = redis.get_int(FENCE_KEY).await.unwrap().unwrap();
    Ok([lease.fence().get(), last.try_into().unwrap()])
}

#[tokio::test]
async fn are_known_to_the_body() {
    let (_server, locks, redis) = setup().await;
    let mut fences = Vec::new();
    for id in 0..3 {
        let [own, last] = pay(&locks, id, redis.clone()).await.unwrap();
        assert_eq!(own, last);
        fences.push(Fence::new(own));
    }
    assert_growing(&fences);
}

#[tokio::test]
async fn leave_one_counter_after_ten_thousand_locks() {
    let (_server, locks, mut redis) = setup().await;
    let keys = stream::iter(0..10_000).map(|n| format!("k{n}"));
    let locks = &locks;
    let fences = keys.map(|key| async move { fence(locks, &key).await });
    let fences: Vec<_> = fences.buffer_unordered(50).collect().await;

    let left: Vec<String> = redis.keys("*").await.unwrap();
    assert_eq!(left, [FENCE_KEY]);
    let last = redis.get(FENCE_KEY).await.unwrap().unwrap();
    assert_eq!(last, fences.iter().max().unwrap().to_string());
}
