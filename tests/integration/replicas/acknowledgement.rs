//! Grants and renewals that replicas must acknowledge.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use harness::{Cluster, Mode, Proxy, Sentinels, Server, eventually, redlock_url, run};
use lock_runtime::{LockError, LockManager, LossCause};
use redis::AsyncTypedCommands as _;

use crate::support::{
    AT_ONCE, SOON, is_acquire, is_renewal, ms, wait_for_waiters, wait_until_absent,
};

/// Starts a master and its replicas.
async fn start(count: usize) -> (Server, Vec<Server>) {
    let settings = || Server::builder().config("repl-ping-replica-period 1");
    let master = settings().start().await;
    let of_master = format!("replicaof 127.0.0.1 {}", master.port());
    let replicas = join_all((0..count).map(|_| settings().config(&of_master).start())).await;
    master.wait_for_replicas(count).await;
    (master, replicas)
}

/// A master, a replica with this delay in each direction, and the network between them.
async fn start_distant(delay: Duration) -> (Server, Proxy, Server) {
    let settings = || Server::builder().config("repl-ping-replica-period 1");
    let master = settings().start().await;
    let distant = Proxy::start(master.addr());
    let of_master = format!("replicaof 127.0.0.1 {}", distant.addr().port());
    let replica = settings().config(&of_master).start().await;
    master.wait_for_replicas(1).await;
    distant.both_ways(Mode::Delay(delay));
    (master, distant, replica)
}

#[tokio::test]
async fn f75_waits_on_the_connection_of_each_grant_and_renewal() {
    let (master, replicas) = start(1).await;
    let locks = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    let log = master.log();
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    assert!(replicas[0].connection().await.exists("k").await.unwrap());
    log.wait_for(|entry| entry.is("PEXPIRE"), SOON).await;
    guard.release().await.unwrap();
    log.settle().await;
    let entries = log.entries();
    let outer: Vec<_> = entries.iter().filter(|entry| !entry.from_script()).collect();
    for (number, entry) in outer.iter().enumerate() {
        let writes = is_acquire(entry, "k") || is_renewal(entry, "1000");
        if writes {
            let mut later = outer[number + 1..].iter().filter(|l| l.source == entry.source);
            assert!(later.next().is_some_and(|next| next.is("WAIT")), "{entries:#?}");
        }
    }
    assert!(outer.iter().filter(|entry| entry.is("WAIT")).count() >= 2);
}

#[tokio::test]
async fn f75_shares_one_wait_among_grants() {
    const TASKS: usize = 64;
    let (master, distant, _replica) = start_distant(ms(20)).await;
    let locks = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    let log = master.log();
    let guards = join_all(
        (0..TASKS).map(async |n| locks.lock(format!("k{n}")).ttl(SOON).wait(SOON).await.unwrap()),
    )
    .await;
    log.settle().await;
    let waits = log.count(|entry| entry.is("WAIT"));
    assert!(waits < TASKS / 4, "{waits}");
    for guard in guards {
        guard.release().await.unwrap();
    }
    drop(distant);
}

#[tokio::test]
async fn f75_sends_no_wait_with_polls() {
    let (master, _replicas) = start(1).await;
    let locks = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    let mut redis = master.connection().await;
    let guard = locks.lock("k").ttl(SOON * 6).await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").ttl(ms(600)).wait(SOON * 4).into_future());
    wait_for_waiters(&mut redis, "k", 1).await;
    let log = master.log();
    eventually("the waiter polls", SOON, async || log.count(|entry| is_acquire(entry, "k")) >= 5)
        .await;
    assert_eq!(log.count(|entry| entry.is("WAIT")), 0);
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// The master has granted the lock, which must not stay there.
#[tokio::test]
async fn f75_f76_releases_a_grant_without_acknowledgement() {
    let (master, replicas) = start(1).await;
    let locks = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    replicas[0].pause();
    let began = Instant::now();
    let error = locks.lock("k").await.unwrap_err();
    assert!(began.elapsed() < ms(2_500), "{:?}", began.elapsed());
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("0 of 1 replicas have acknowledged it"), "{error}");
    wait_until_absent(&mut master.connection().await, "k", SOON).await;
    replicas[0].resume();
    locks.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn f79_keeps_the_deadline_without_acknowledgement() {
    let (master, replicas) = start(1).await;
    let locks = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    let guard = locks.lock("k").ttl(ms(2_000)).wait(SOON).await.unwrap();
    let log = master.log();
    replicas[0].pause();
    assert_eq!(guard.lost().await, LossCause::Expired);
    assert!(log.count(|entry| entry.is("PEXPIRE")) > 0, "the master has renewed it");
    replicas[0].resume();
}

#[tokio::test]
async fn f79_loses_a_deleted_lock_at_once_without_replicas() {
    let (master, replicas) = start(1).await;
    let locks = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    let guard = locks.lock("k").ttl(SOON).await.unwrap();
    replicas[0].pause();
    master.connection().await.del("k").await.unwrap();
    assert_eq!(guard.lost().await, LossCause::Taken);
    replicas[0].resume();
}

/// With all replicas required, it does not matter which one is promoted.
#[tokio::test]
async fn f74_rejects_one_acknowledgement_of_two() {
    let (master, replicas) = start(2).await;
    let two = LockManager::builder().replicas(2).connect(master.url()).await.unwrap();
    let one = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    replicas[1].pause();
    let error = two.lock("k").await.unwrap_err().to_string();
    assert!(error.contains("of 2 replicas"), "{error}");
    one.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
    replicas[1].resume();
}

/// The previous holder writes the hand-over, on another connection.
#[tokio::test]
async fn f78_requires_acknowledgement_of_a_hand_over() {
    let (master, replicas) = start(1).await;
    let locks = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    let guard = locks.lock("k").ttl(SOON).wait(SOON).await.unwrap();
    let waiter = tokio::spawn(locks.lock("k").ttl(SOON).wait(ms(3_000)).into_future());
    wait_for_waiters(&mut master.connection().await, "k", 1).await;
    replicas[0].pause();
    guard.release().await.unwrap();
    let error = waiter.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("replicas have acknowledged it"), "{error}");
    replicas[0].resume();
}

/// The old master is healthy and accepts writes for seconds; only writes on the replicas count.
#[tokio::test]
async fn f79_grants_one_holder_over_a_planned_failover() {
    let sentinels = Sentinels::start("orders").await;
    let connect =
        async || LockManager::builder().replicas(2).connect(sentinels.url()).await.unwrap();
    let (old, new) = (connect().await, connect().await);
    let guard = old.lock("k").ttl(ms(2_500)).await.unwrap();
    sentinels.fail_over().await;
    let request = new.lock("k").ttl(ms(2_500)).wait(SOON * 4);
    let held = guard.run(request.into_future()).await;
    // Either the holder kept the lock, or it stopped before the next grant.
    assert!(!matches!(held, Ok(Ok(_))), "the lock was granted twice");
}

#[tokio::test]
async fn f77_reports_missing_replicas_at_start() {
    let (master, _replicas) = start(1).await;
    let error = LockManager::builder().replicas(2).connect(master.url()).await.unwrap_err();
    assert!(
        error.to_string().contains("it has 1 of the 2 replicas that `replicas` asks for"),
        "{error}"
    );
    let cluster = Cluster::start().await;
    let error = LockManager::builder().replicas(2).connect(cluster.url()).await.unwrap_err();
    assert!(error.to_string().contains("1 of the 2 replicas"), "{error}");
    let locks = LockManager::builder().replicas(1).connect(cluster.url()).await.unwrap();
    // Only replicas of the lock's own server count.
    let owner = cluster.owner("k").await;
    cluster.nodes()[3 + (owner + 1) % 3].pause();
    locks.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
    cluster.nodes()[3 + owner].pause();
    let error = locks.lock("k").await.unwrap_err();
    assert!(error.to_string().contains("0 of 1 replicas have acknowledged it"), "{error}");
    let error = LockManager::builder().replicas(1).connect("memory://").await.unwrap_err();
    assert!(error.to_string().contains("cannot be used with memory://"), "{error}");
}

#[tokio::test]
async fn f75_grants_no_lock_without_permission_for_wait() {
    let (master, _replicas) = start(1).await;
    let mut redis = master.connection().await;
    run(&mut redis, "ACL SETUSER app on >pass ~* &* +@all").await;
    let builder = LockManager::builder().replicas(1);
    let locks = builder.clone().connect(master.url_as("app", "pass")).await.unwrap();
    run(&mut redis, "ACL SETUSER app -wait").await;
    let error = builder.connect(master.url_as("app", "pass")).await.unwrap_err();
    assert!(error.to_string().to_uppercase().contains("NOPERM"), "{error}");
    let error = locks.lock("k").await.unwrap_err();
    assert!(error.to_string().to_uppercase().contains("NOPERM"), "{error}");
    wait_until_absent(&mut redis, "k", AT_ONCE).await;
}

#[tokio::test]
async fn f45_reports_a_replica_at_start() {
    let (master, replicas) = start(2).await;
    let error = LockManager::connect(replicas[0].url()).await.unwrap_err();
    assert!(error.to_string().contains("this server is a replica"), "{error}");
    let all = [&master, &replicas[0], &replicas[1]].map(Server::addr);
    let error = LockManager::connect(redlock_url(all)).await.unwrap_err();
    assert!(error.to_string().contains("this server is a replica"), "{error}");
}
