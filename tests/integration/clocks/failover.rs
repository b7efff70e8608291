//! A failover to a master whose clock is ahead or behind: an expiry is an absolute time.

use std::cell::RefCell;

use harness::{Clock, Sentinels, ServerBuilder, eventually};
use lock_runtime::LockManager;
use redis::AsyncTypedCommands as _;
use tokio::time::timeout;

use super::{HOUR, valkey};
use crate::support::{FENCE_KEY, SOON, pttl};

/// Starts a master with the right time, and two replicas whose clocks are this many seconds ahead.
async fn start(ahead: i64) -> (Sentinels, [Clock; 2]) {
    let (right, wrong) = (Clock::new(), Clock::new());
    wrong.set(ahead);
    let servers = vec![valkey(&wrong).await, valkey(&wrong).await, valkey(&right).await];
    let servers = RefCell::new(servers);
    let settings = |server: ServerBuilder| match servers.borrow_mut().pop() {
        Some(command) => server.command(command),
        None => server, // a sentinel
    };
    (Sentinels::start_with("lock", settings).await, [right, wrong])
}

/// Kills the master and waits for a new one, whose clock is wrong.
async fn fail_over(sentinels: &Sentinels) {
    let master = &sentinels.servers()[0];
    master.kill();
    sentinels.wait_until_replaced(master.port()).await;
}

/// The holder notices with its next renewal, although all replicas have acknowledged the lock;
/// until then, fences order the two holders.
#[tokio::test]
async fn f81_loses_a_lease_early_when_the_next_clock_is_ahead() {
    let (sentinels, _clocks) = start(20).await;
    let builder = LockManager::builder().replicas(2);
    let locks = builder.connect(sentinels.url()).await.unwrap();
    let other = LockManager::connect(sentinels.url()).await.unwrap();
    let older = locks.lock("k").ttl(SOON * 3).wait(SOON).await.unwrap();
    assert!(other.lock("k").await.unwrap_err().is_busy());
    fail_over(&sentinels).await;
    let younger = other.lock("k").ttl(SOON * 3).wait(SOON).await.unwrap();

    assert!(!older.is_lost(), "the lease was lost early");
    assert!(younger.fence() > older.fence());
    timeout(SOON * 3, older.lost()).await.expect("the loss is reported");
    younger.release().await.unwrap();
}

#[tokio::test]
async fn f81_keeps_a_lock_when_the_next_masters_clock_is_behind() {
    let (sentinels, _clocks) = start(-20).await;
    let locks = LockManager::connect(sentinels.url()).await.unwrap();
    let released = locks.lock("released").ttl(SOON * 2).await.unwrap();
    let held = locks.lock("held").ttl(SOON * 2).await.unwrap();
    sentinels.servers()[0].wait_for_replicas(2).await;
    fail_over(&sentinels).await;
    let mut redis = sentinels.master().await.connection().await;
    assert!(pttl(&mut redis, "released").await > 20_000);

    released.release().await.unwrap();
    assert_eq!(pttl(&mut redis, "released").await, -2);
    let is_renewed = async || (1..=10_000).contains(&pttl(&mut redis, "held").await);
    held.run(eventually("the lock is renewed", SOON * 2, is_renewed)).await.unwrap();
    let fence = held.fence();
    held.release().await.unwrap();
    let next = locks.lock("held").await.unwrap();
    assert!(next.fence() > fence);
    next.release().await.unwrap();
}

/// The clock is behind by nearly the day that each failover adds to the fences.
#[tokio::test]
async fn f81_grows_fences_when_the_next_master_is_hours_behind() {
    let (sentinels, _clocks) = start(-23 * HOUR).await;
    let locks = LockManager::connect(sentinels.url()).await.unwrap();
    let guard = locks.lock("k").await.unwrap();
    let fence = guard.fence();
    guard.release().await.unwrap();
    let master = &sentinels.servers()[0];
    master.connection().await.set(FENCE_KEY, 7).await.unwrap();
    master.wait_for_replicas(2).await;
    fail_over(&sentinels).await;
    let guard = locks.lock("k").wait(SOON).await.unwrap();
    assert!(guard.fence() > fence, "{} after {fence}", guard.fence());
    guard.release().await.unwrap();
}
