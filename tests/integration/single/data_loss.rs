//! Servers that lose held locks: after a crash, a synchronisation or an eviction.

use std::time::Instant;

use futures_util::future::join_all;
use harness::{Server, eventually, run};
use lock_runtime::{LockGuard, LockManager, LossCause};
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use crate::support::{SOON, ms, pttl};

/// Waits until the renewal of a lease of 3 s reports the loss.
async fn assert_loss_is_reported(guard: &LockGuard) {
    let cause = timeout(ms(3_000), guard.lost()).await.expect("the loss is reported");
    assert_eq!(cause, LossCause::Taken);
}

#[tokio::test]
async fn f37_loses_locks_that_were_not_persisted_in_a_crash() {
    let settings = [
        ("appendonly no", "appendfsync no", false),
        ("appendonly yes", "appendfsync everysec", true),
        ("appendonly yes", "appendfsync always", true),
    ];
    join_all(settings.map(async |(appendonly, fsync, kept)| {
        let mut server = Server::builder().config(appendonly).config(fsync).start().await;
        let locks = LockManager::connect(server.url()).await.unwrap();
        let mut redis = server.connection().await;
        let guard = locks.lock("k").ttl(ms(3_000)).await.unwrap();
        let token = redis.get("k").await.unwrap();
        let (before, began) = (pttl(&mut redis, "k").await, Instant::now());
        server.kill();
        sleep(ms(300)).await; // the time of the outage must count against the ttl
        server.restart().await;
        let mut redis = server.connection().await;
        let (away, after) = (began.elapsed(), pttl(&mut redis, "k").await);

        let other = LockManager::connect(server.url()).await.unwrap();
        if kept {
            assert!(
                (1..=before - 300).contains(&after),
                "{after} ms after {away:?}, {before} before"
            );
            assert_eq!(redis.get("k").await.unwrap(), token, "{fsync}");
            assert!(other.lock("k").await.unwrap_err().is_busy());
            guard.run(sleep(ms(3_500))).await.unwrap();
            assert_eq!(redis.get("k").await.unwrap(), token, "{fsync}");
            guard.release().await.unwrap();
        } else {
            assert_eq!(after, -2);
            let next = other.lock("k").await.unwrap();
            assert!(next.fence() > guard.fence());
            assert_loss_is_reported(&guard).await;
            next.release().await.unwrap();
        }
    }))
    .await;
}

/// The replica's data does not help, because it copies its empty primary.
#[tokio::test]
async fn f39_loses_locks_on_a_replica_of_an_empty_primary() {
    let mut primary = Server::builder().config("repl-diskless-sync-delay 0").start().await;
    let follow = format!("replicaof 127.0.0.1 {}", primary.port());
    let replica = Server::builder().config(&follow).start().await;
    let locks = LockManager::connect(primary.url()).await.unwrap();
    let (mut redis, mut copy) = (primary.connection().await, replica.connection().await);
    redis.set("data", "v").await.unwrap();
    let guard = locks.lock("k").ttl(ms(3_000)).await.unwrap();
    let copied = async || copy.exists("data").await.unwrap() && copy.exists("k").await.unwrap();
    eventually("the replica has a copy", SOON, copied).await;

    primary.restart().await;
    assert_loss_is_reported(&guard).await;
    let mut copy = replica.connection().await;
    eventually("the copy is empty", SOON * 2, async || !copy.exists("data").await.unwrap()).await;
    primary.kill();
    run(&mut copy, "REPLICAOF NO ONE").await;
    let next = LockManager::connect(replica.url()).await.unwrap().lock("k").await.unwrap();
    assert!(next.fence() > guard.fence());
    next.release().await.unwrap();
}

async fn used_memory(redis: &mut MultiplexedConnection) -> u64 {
    let info: String = redis::cmd("INFO").arg("memory").query_async(redis).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.unwrap().parse().unwrap()
}

/// The reason to use `noeviction`: locks are evicted early, because they expire soon.
#[tokio::test]
async fn f41_reports_an_evicted_lock_as_lost() {
    let policies = ["allkeys-lru", "volatile-lru", "volatile-ttl"];
    join_all(policies.map(async |policy| {
        let server = Server::builder().config(&format!("maxmemory-policy {policy}")).start().await;
        let locks = LockManager::connect(server.url()).await.unwrap();
        let mut redis = server.connection().await;
        let room = used_memory(&mut redis).await + (4 << 20);
        run(&mut redis, &format!("CONFIG SET maxmemory {room}")).await;
        let guard = locks.lock("k").ttl(ms(3_000)).await.unwrap();
        let (data, mut filled) = ("x".repeat(64 << 10), 0);
        while redis.exists("k").await.unwrap() {
            filled += 1;
            assert!(
                filled < 10_000 && guard.remaining() > ms(1_000),
                "{policy}: it is still there"
            );
            let mut fill = redis::cmd("SET");
            fill.arg(format!("data:{filled}")).arg(&data).arg("PX").arg(600_000);
            fill.exec_async(&mut redis).await.unwrap();
        }

        assert_loss_is_reported(&guard).await;
        let next = locks.lock("k").await.unwrap();
        assert!(next.fence() > guard.fence(), "{policy}");
    }))
    .await;
}
