//! Grants and renewals that replicas acknowledge.

use std::time::Instant;

use futures_util::future::join_all;
use harness::{Cluster, Sentinels, Server, redlock_url, run};
use lock_runtime::{LockError, LockManager, LossCause};
use redis::AsyncTypedCommands as _;

use crate::support::{
    AT_ONCE, SOON, is_acquire, is_renewal, ms, wait_for_waiters, wait_until_absent,
};

/// A master and its replicas.
async fn wait_for_replicas(count: usize) -> (Server, Vec<Server>) {
    let settings = || Server::builder().config("repl-ping-replica-period 1");
    let master = settings().start().await;
    let of_master = format!("replicaof 127.0.0.1 {}", master.port());
    let replicas = join_all((0..count).map(|_| settings().config(&of_master).start())).await;
    master.wait_for_replicas(count).await;
    (master, replicas)
}

#[tokio::test]
async fn f75_grants_and_renewals_are_acknowledged_on_their_own_connection() {
    let (master, replicas) = wait_for_replicas(1).await;
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

/// The lock was taken in the master, and must not stay there.
#[tokio::test]
async fn f75_f76_a_grant_that_is_not_acknowledged_is_an_error_and_given_back() {
    let (master, replicas) = wait_for_replicas(1).await;
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
async fn f79_a_renewal_that_is_not_acknowledged_moves_no_deadline() {
    let (master, replicas) = wait_for_replicas(1).await;
    let locks = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    let guard = locks.lock("k").ttl(ms(2_000)).wait(SOON).await.unwrap();
    let log = master.log();
    replicas[0].pause();
    assert_eq!(guard.lost().await, LossCause::Expired);
    assert!(log.count(|entry| entry.is("PEXPIRE")) > 0, "it was renewed in the master");
    replicas[0].resume();
}

#[tokio::test]
async fn f79_a_lock_that_is_gone_is_lost_at_once_though_nobody_acknowledges_that() {
    let (master, replicas) = wait_for_replicas(1).await;
    let locks = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    let guard = locks.lock("k").ttl(SOON).await.unwrap();
    replicas[0].pause();
    master.connection().await.del("k").await.unwrap();
    assert_eq!(guard.lost().await, LossCause::Taken);
    replicas[0].resume();
}

/// All replicas are asked for, so it does not matter which one is promoted.
#[tokio::test]
async fn f74_one_replica_of_two_is_not_enough_when_two_are_asked_for() {
    let (master, replicas) = wait_for_replicas(2).await;
    let two = LockManager::builder().replicas(2).connect(master.url()).await.unwrap();
    let one = LockManager::builder().replicas(1).connect(master.url()).await.unwrap();
    replicas[1].pause();
    let error = two.lock("k").await.unwrap_err().to_string();
    assert!(error.contains("of 2 replicas"), "{error}");
    one.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
    replicas[1].resume();
}

/// A lock that was handed over was written by the one before, on another connection.
#[tokio::test]
async fn f78_a_lock_that_was_handed_over_is_acknowledged_too() {
    let (master, replicas) = wait_for_replicas(1).await;
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

/// The old master is well and takes writes for seconds; only what the replicas have counts.
#[tokio::test]
async fn f79_nobody_holds_a_lock_twice_over_a_planned_failover() {
    let sentinels = Sentinels::start("orders").await;
    let connect =
        async || LockManager::builder().replicas(2).connect(sentinels.url()).await.unwrap();
    let (old, new) = (connect().await, connect().await);
    let guard = old.lock("k").ttl(ms(2_500)).await.unwrap();
    sentinels.fail_over().await;
    let request = new.lock("k").ttl(ms(2_500)).wait(SOON * 4);
    let held = guard.run(request.into_future()).await;
    // Either the holder went on, and nobody else got it, or it had stopped before.
    assert!(!matches!(held, Ok(Ok(_))), "the lock was granted twice");
}

#[tokio::test]
async fn f77_fewer_replicas_than_asked_for_are_an_error_at_start() {
    let (master, _replicas) = wait_for_replicas(1).await;
    let error = LockManager::builder().replicas(2).connect(master.url()).await.unwrap_err();
    assert!(
        error.to_string().contains("it has 1 of the 2 replicas that `replicas` asks for"),
        "{error}"
    );
    let cluster = Cluster::start().await;
    let error = LockManager::builder().replicas(2).connect(cluster.url()).await.unwrap_err();
    assert!(error.to_string().contains("1 of the 2 replicas"), "{error}");
    let locks = LockManager::builder().replicas(1).connect(cluster.url()).await.unwrap();
    // Only those of the server that keeps the lock are asked.
    let owner = cluster.owner("k").await;
    cluster.nodes()[3 + (owner + 1) % 3].pause();
    locks.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
    cluster.nodes()[3 + owner].pause();
    let error = locks.lock("k").await.unwrap_err();
    assert!(error.to_string().contains("0 of 1 replicas have acknowledged it"), "{error}");
    let error = LockManager::builder().replicas(1).connect("memory://").await.unwrap_err();
    assert!(error.to_string().contains("does not go with memory://"), "{error}");
}

#[tokio::test]
async fn f75_who_may_not_wait_for_replicas_takes_no_lock() {
    let (master, _replicas) = wait_for_replicas(1).await;
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
async fn f45_a_replica_is_an_error_at_start() {
    let (master, replicas) = wait_for_replicas(2).await;
    let error = LockManager::connect(replicas[0].url()).await.unwrap_err();
    assert!(error.to_string().contains("this is a replica"), "{error}");
    let all = [&master, &replicas[0], &replicas[1]].map(Server::addr);
    let error = LockManager::connect(redlock_url(all)).await.unwrap_err();
    assert!(error.to_string().contains("this is a replica"), "{error}");
}
