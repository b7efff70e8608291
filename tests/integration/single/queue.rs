//! The queue of waiters: the order of grants, and their delay.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_runtime::LockManager;
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::{
    SOON, count_keys, grants_in_order, hold_times, is_acquire, is_release, ms, occupy,
    queued_tokens, setup, spawn_holder, wait_for_waiters,
};

/// Waits for the lock `k` and releases it at once.
async fn turn(locks: LockManager) {
    locks.lock("k").wait(SOON * 4).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn serves_waiters_of_one_process_in_order() {
    const WAITERS: usize = 16;
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let guard = locks.lock("k").await.unwrap();
    let turns: JoinSet<()> = (0..WAITERS).map(|_| turn(locks.clone())).collect();
    wait_for_waiters(&mut redis, "k", WAITERS).await;
    guard.release().await.unwrap();
    turns.join_all().await;

    log.settle().await;
    let grants = grants_in_order(&log, "k");
    assert_eq!(grants.len(), 1 + WAITERS);
    let holds = hold_times(&log, &grants);
    assert!(holds[WAITERS / 2] < ms(250), "a waiter is not notified at once: {holds:?}");
    // One command to acquire the lock and one to release it, however long the wait.
    assert_eq!(log.count(|entry| is_acquire(entry, "k")), 1 + WAITERS);
    assert_eq!(log.count(|entry| is_release(entry, "k")), 1 + WAITERS);
    assert_eq!(log.count(|entry| !entry.from_script() && entry.has("k")), 2 * (1 + WAITERS));
    assert_eq!(count_keys(&mut redis).await, 0);
}

#[tokio::test]
async fn f102_serves_waiters_of_several_processes_in_order() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let guard = locks.lock("k").await.unwrap();
    let options = ["wait=60000", "tasks=4", "rounds=5"].map(str::to_owned);
    let others = [(); 3].map(|()| spawn_holder(&server.url(), "k", &options));
    wait_for_waiters(&mut redis, "k", 12).await;
    guard.release().await.unwrap();
    for other in &others {
        assert!(other.exited(SOON * 4).await.success());
        assert_eq!(other.lines().iter().filter(|line| *line == "released").count(), 20);
    }

    log.settle().await;
    let grants = grants_in_order(&log, "k");
    assert_eq!(grants.len(), 61);
    let holds = hold_times(&log, &grants);
    assert!(holds[30] < ms(250), "a waiter is not notified at once: {holds:?}");
    assert_eq!(count_keys(&mut redis).await, 0);
}

#[tokio::test]
async fn f101_wakes_many_waiters_one_by_one() {
    const COUNT: usize = 400;
    let (server, locks, mut redis) = setup().await;
    let guard = locks.lock("k").await.unwrap();
    let turns: JoinSet<()> = (0..COUNT).map(|_| turn(locks.clone())).collect();
    wait_for_waiters(&mut redis, "k", COUNT).await;
    let log = server.log();
    sleep(ms(6_000)).await;
    log.settle().await;
    let requests = log.count(|entry| is_acquire(entry, "k"));
    assert!((COUNT / 2..COUNT * 2).contains(&requests), "{requests} requests in 6 s");

    guard.release().await.unwrap();
    turns.join_all().await;
    log.settle().await;
    let messages = log.count(|entry| entry.is("PUBLISH"));
    assert!((COUNT..COUNT + COUNT / 10).contains(&messages), "{messages} messages");
    assert_eq!(count_keys(&mut redis).await, 0);
}

/// The lock is free although a client waits: an operator has deleted the key, which no client has
/// noticed yet.
#[tokio::test]
async fn refuses_a_call_without_wait_while_others_wait() {
    let (_server, locks, mut redis) = setup().await;
    let mut guard = locks.lock("k").await.unwrap();
    for _ in 0..20 {
        let waiting = tokio::spawn(locks.lock("k").wait(SOON).into_future());
        wait_for_waiters(&mut redis, "k", 1).await;
        let first = queued_tokens(&mut redis, "k").await.remove(0);
        redis.del("k").await.unwrap();
        let error = locks.lock("k").await.unwrap_err();
        assert!(error.is_busy() && error.to_string().contains(&first), "{error}");
        let next = waiting.await.unwrap().unwrap();
        assert!(guard.release().await.unwrap_err().is_lost());
        guard = next;
    }
    guard.release().await.unwrap();
    assert_eq!(count_keys(&mut redis).await, 0);
}

#[tokio::test]
async fn serves_waiters_before_calls_without_wait() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let guard = locks.lock("k").await.unwrap();
    let turns = (0..4).map(|_| async {
        for _ in 0..50 {
            turn(locks.clone()).await;
        }
    });
    let (turns, ended) = (join_all(turns), AtomicBool::new(false));
    let hurry = async {
        wait_for_waiters(&mut redis, "k", 4).await;
        guard.release().await.unwrap();
        while !ended.load(Ordering::Relaxed) {
            if let Ok(guard) = locks.lock("k").await {
                guard.release().await.unwrap();
            }
        }
    };
    tokio::join!(async { (turns.await, ended.store(true, Ordering::Relaxed)) }, hurry);

    log.settle().await;
    let attempts = log.count(|entry| is_acquire(entry, "k") && entry.args[9].is_empty());
    assert!(attempts > 100, "{attempts} calls");
    assert!(grants_in_order(&log, "k").len() > 200);
    assert_eq!(count_keys(&mut redis).await, 0);
}

/// Acquires the lock as foreign clients do, polling every 20 ms, and releases it after 30 ms.
async fn poll(redis: &mut MultiplexedConnection) {
    let mut set = redis::cmd("SET");
    set.arg("k").arg("another program").arg("NX").arg("PX").arg(10_000);
    while set.query_async::<Option<String>>(redis).await.unwrap().is_none() {
        sleep(ms(20)).await;
    }
    sleep(ms(30)).await;
    redis.del("k").await.unwrap();
}

#[tokio::test]
async fn lets_foreign_clients_in_beside_a_full_queue() {
    let (_server, locks, mut redis) = setup().await;
    let guard = locks.lock("k").await.unwrap();
    let (turns, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let queue = join_all((0..4).map(async |_| {
        while !ended.load(Ordering::Relaxed) {
            let guard = locks.lock("k").wait(SOON).await.unwrap();
            sleep(ms(2)).await;
            guard.release().await.unwrap();
            turns.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let others = async {
        wait_for_waiters(&mut redis, "k", 4).await;
        guard.release().await.unwrap();
        let mut waits = Vec::new();
        for _ in 0..3 {
            let began = Instant::now();
            timeout(SOON * 2, poll(&mut redis)).await.expect("a turn");
            waits.push(began.elapsed());
        }
        ended.store(true, Ordering::Relaxed);
        waits
    };
    let (_, waits) = tokio::join!(queue, others);

    // The first turn comes within the five seconds after which the lock is left free in any case,
    // the later ones sooner, because the foreign client is known by then.
    assert!(waits[0] < ms(7_000) && waits[1] + waits[2] < ms(5_000), "{waits:?}");
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns > 200, "only {turns} turns of waiters");
}

#[tokio::test]
async fn notices_the_release_of_a_foreign_client_soon() {
    let (_server, locks, mut redis) = setup().await;
    let mut quickest = Duration::MAX;
    for round in 0..5 {
        occupy(&mut redis, "k", ms(60_000)).await;
        let waiting = tokio::spawn(locks.lock("k").wait(SOON * 2).into_future());
        wait_for_waiters(&mut redis, "k", 1).await;
        sleep(ms(110 + 7 * round)).await; // to a moment between two polls
        let released = Instant::now();
        redis.del("k").await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        quickest = quickest.min(released.elapsed());
        guard.release().await.unwrap();
    }
    assert!(quickest < ms(150), "{quickest:?}");
}

#[tokio::test]
async fn wakes_a_waiter_at_the_end_of_min_hold() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let began = Instant::now();
    let guard = locks.lock("k").min_hold(ms(600)).await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").wait(SOON).into_future());
    wait_for_waiters(&mut redis, "k", 1).await;
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    let waited = began.elapsed();
    assert!((ms(600)..ms(900)).contains(&waited), "{waited:?}");
    guard.release().await.unwrap();

    log.settle().await;
    // One by the holder, two by the waiter: on arrival and when the key is due to expire.
    assert_eq!(log.count(|entry| is_acquire(entry, "k")), 3);
    assert_eq!(count_keys(&mut redis).await, 0);
}
