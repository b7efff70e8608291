//! Keys of the lock with foreign contents, and with times ahead of or behind the clock.

use std::time::Instant;

use harness::{Server, eventually, run};
use lock_runtime::{LockError, LockManager};
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use crate::support::{
    FENCE_KEY, SOON, count_keys, grants_in_order, ms, pttl, setup, wait_for_waiters,
    wait_until_absent,
};

const WAITERS: &str = "{k}:waiters";
const PEERS: &str = "{k}:peers";
/// A helper key, a command that overwrites it, and its name in errors.
const FOREIGN: [(&str, &str, &str); 2] = [
    (WAITERS, "SET {k}:waiters mine", "`{key}:waiters`"),
    (PEERS, "RPUSH {k}:peers mine", "`{key}:peers`"),
];
/// A well-formed token without an owner.
const NO_OWNER: &str = "0123456789ab-0123456789abcdef0123456789abcdef";

/// Returns the value of a key and its ttl.
async fn content(redis: &mut MultiplexedConnection, key: &str) -> (Vec<u8>, i64) {
    let dump = redis::cmd("DUMP").arg(key).query_async(redis).await.unwrap();
    (dump, pttl(redis, key).await)
}

/// Returns whether the error names the lock, the server and the key.
fn explains(error: &LockError, server: &Server, key: &str) -> bool {
    let text = error.to_string();
    let parts = [r#"lock "k""#, &server.addr().to_string(), key];
    error.is_unavailable() && parts.iter().all(|part| text.contains(part))
}

/// Returns the error of a call with a wait, which comes at once.
async fn refused(locks: &LockManager) -> LockError {
    let began = Instant::now();
    let error = locks.lock("k").wait(SOON).await.unwrap_err();
    assert!(began.elapsed() < ms(1_000), "{:?}: {error}", began.elapsed());
    error
}

#[tokio::test]
async fn f60_reports_a_foreign_queue_to_waiters_only() {
    let (server, locks, mut redis) = setup().await;
    for (key, command, name) in FOREIGN {
        run(&mut redis, command).await;
        let before = content(&mut redis, key).await;
        for _ in 0..2 {
            let guard = locks.lock("k").await.unwrap();
            assert!(locks.lock("k").await.unwrap_err().is_busy());
            let error = refused(&locks).await;
            assert!(explains(&error, &server, name), "{error}");
            guard.release().await.unwrap();
            assert!(!redis.exists("k").await.unwrap());
        }
        drop(locks.lock("k").await.unwrap());
        wait_until_absent(&mut redis, "k", SOON).await;
        assert_eq!(content(&mut redis, key).await, before);
        redis.del(key).await.unwrap();
        assert_eq!(count_keys(&mut redis).await, 0);
    }
}

#[tokio::test]
async fn f60_frees_the_lock_when_its_queue_is_overwritten() {
    let (server, locks, mut redis) = setup().await;
    for (key, command, name) in FOREIGN {
        let guard = locks.lock("k").await.unwrap();
        let waiting = tokio::spawn(locks.lock("k").ttl(ms(600)).wait(SOON).into_future());
        wait_for_waiters(&mut redis, "k", 1).await;
        redis.del(key).await.unwrap();
        run(&mut redis, command).await;
        let before = content(&mut redis, key).await;
        guard.release().await.unwrap();
        assert!(!redis.exists("k").await.unwrap());
        // The waiter gets the lock with its next poll, or an error that explains why it cannot
        // wait.
        match waiting.await.unwrap() {
            Ok(guard) => guard.release().await.unwrap(),
            Err(error) => assert!(explains(&error, &server, name), "{error}"),
        }
        wait_until_absent(&mut redis, "k", SOON).await;
        assert_eq!(content(&mut redis, key).await, before);
        run(&mut redis, "DEL {k}:waiters {k}:peers").await;
    }
}

#[tokio::test]
async fn f59_reports_and_keeps_a_foreign_counter() {
    let (server, locks, mut redis) = setup().await;
    let foreign = [
        "RPUSH lock-runtime:fence mine",
        "SET lock-runtime:fence abc",
        "SET lock-runtime:fence 9007199254740993",
    ];
    for command in foreign {
        let guard = locks.lock("k").await.unwrap();
        let waiting = tokio::spawn(locks.lock("k").ttl(ms(600)).wait(SOON).into_future());
        wait_for_waiters(&mut redis, "k", 1).await;
        redis.del(FENCE_KEY).await.unwrap();
        run(&mut redis, command).await;
        let before = content(&mut redis, FENCE_KEY).await;

        guard.release().await.unwrap();
        assert!(!redis.exists("k").await.unwrap());
        for error in [waiting.await.unwrap().unwrap_err(), refused(&locks).await] {
            assert!(explains(&error, &server, FENCE_KEY), "{error}");
        }
        let error = locks.lock("k").await.unwrap_err();
        assert!(explains(&error, &server, FENCE_KEY), "{error}");
        assert!(!redis.exists("k").await.unwrap());
        assert_eq!(content(&mut redis, FENCE_KEY).await, before);

        redis.del(FENCE_KEY).await.unwrap();
        locks.lock("k").await.unwrap().release().await.unwrap();
    }
}

/// As after a clock that went back: dead waiters were last seen in the future.
#[tokio::test]
async fn skips_dead_waiters_seen_in_the_future() {
    let (_server, locks, mut redis) = setup().await;
    // With an inbox without subscribers, and without an inbox.
    for (inbox, limit) in [("lock-runtime:absent:0", ms(800)), ("", ms(2_500))] {
        let guard = locks.lock("k").await.unwrap();
        redis.zadd(WAITERS, NO_OWNER, 0).await.unwrap();
        redis.hset(PEERS, NO_OWNER, format!("9999999999999 600 {inbox}")).await.unwrap();
        let waiting = tokio::spawn(locks.lock("k").ttl(ms(3_000)).wait(SOON).into_future());
        wait_for_waiters(&mut redis, "k", 2).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(released.elapsed() < limit, "{inbox}: {:?}", released.elapsed());
        guard.release().await.unwrap();
        wait_until_absent(&mut redis, PEERS, SOON).await;
    }
}

/// As after a clock that went back: the counter is ahead of it.
#[tokio::test]
async fn serves_waiters_in_order_when_the_clock_is_behind() {
    let (server, locks, mut redis) = setup().await;
    let (log, guard) = (server.log(), locks.lock("k").await.unwrap());
    redis.set(FENCE_KEY, guard.fence().get() + 3_600_000_000).await.unwrap();
    let turns: JoinSet<()> = (0..8)
        .map(|_| {
            let request = locks.lock("k").wait(SOON);
            async { request.await.unwrap().release().await.unwrap() }
        })
        .collect();
    wait_for_waiters(&mut redis, "k", 8).await;
    guard.release().await.unwrap();
    turns.join_all().await;
    log.settle().await;
    assert_eq!(grants_in_order(&log, "k").len(), 9);
}

/// As after a clock that was set ahead: no waiter seems to have polled lately.
#[tokio::test]
async fn requeues_waiters_that_seem_dead() {
    let (_server, locks, mut redis) = setup().await;
    let guard = locks.lock("k").await.unwrap();
    let waiting = [(); 5].map(|()| {
        let request = locks.lock("k").ttl(ms(600)).wait(SOON);
        tokio::spawn(async { request.await.unwrap().release().await.unwrap() })
    });
    wait_for_waiters(&mut redis, "k", 5).await;
    for (token, _) in redis.hgetall(PEERS).await.unwrap() {
        redis.hset(PEERS, token, "1 600 lock-runtime:absent:0").await.unwrap();
    }
    let released = Instant::now();
    guard.release().await.unwrap();
    assert!(!redis.exists("k").await.unwrap(), "a waiter was considered alive");
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert!(released.elapsed() < ms(1_500), "{:?}", released.elapsed());
}

#[tokio::test]
async fn ignores_turns_in_the_future() {
    let (_server, locks, mut redis) = setup().await;
    for name in ["turn", "since", "others"] {
        let guard = locks.lock("k").await.unwrap();
        let waiting = tokio::spawn(locks.lock("k").wait(SOON).into_future());
        wait_for_waiters(&mut redis, "k", 1).await;
        redis.hset(PEERS, name, "9999999999999").await.unwrap();
        let released = Instant::now();
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(released.elapsed() < ms(800), "{name}: {:?}", released.elapsed());

        let waiting = tokio::spawn(locks.lock("k").wait(SOON).into_future());
        wait_for_waiters(&mut redis, "k", 1).await;
        redis.hset(PEERS, name, "9999999999999").await.unwrap();
        redis.del("k").await.unwrap();
        assert!(locks.lock("k").await.unwrap_err().is_busy());
        assert!(guard.release().await.unwrap_err().is_lost());
        waiting.await.unwrap().unwrap().release().await.unwrap();
        eventually("the queue is gone", SOON, async || !redis.exists(PEERS).await.unwrap()).await;
    }
}
