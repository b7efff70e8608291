//! The in-memory store, which keeps the same promises as a server.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use lock_runtime::{LockError, LockManager, LossCause, redis_lock};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::{SOON, ms};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excludes_tasks_from_each_other() {
    let locks = LockManager::in_memory();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (locks, inside) = (locks.clone(), Arc::clone(&inside));
        tasks.spawn(async move {
            for _ in 0..50 {
                let guard = locks.lock("k").wait(SOON * 4).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                guard.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn is_busy_for_the_held_key_only() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(ms(10_000)).await.unwrap();
    let error = locks.lock("k").await.unwrap_err();
    let LockError::Busy { holder, retry_after, .. } = &error else { panic!("{error}") };
    assert!(holder.is_some());
    assert!(retry_after.unwrap() > ms(5_000) && retry_after.unwrap() <= ms(10_000), "{error}");
    locks.lock("other").await.unwrap().release().await.unwrap();
    guard.release().await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn grants_a_released_lock_to_the_waiter() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").await.unwrap();
    let waiter = tokio::spawn(locks.lock("k").wait_forever().into_future());
    sleep(ms(50)).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let guard = timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
    drop(guard);
    let guard = locks.lock("k").wait(SOON).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn ends_a_wait_at_its_limit() {
    let locks = LockManager::in_memory();
    let _guard = locks.lock("k").ttl(ms(60_000)).await.unwrap();
    let began = Instant::now();
    let error = locks.lock("k").wait(ms(100)).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    assert!(began.elapsed() >= ms(100) && began.elapsed() < ms(600), "{:?}", began.elapsed());
}

#[tokio::test]
async fn skips_a_dropped_waiter() {
    let locks = LockManager::in_memory();
    for _ in 0..20 {
        let guard = locks.lock("k").await.unwrap();
        let dropped = tokio::spawn(locks.lock("k").wait_forever().into_future());
        let waiter = tokio::spawn(locks.lock("k").wait_forever().into_future());
        tokio::task::yield_now().await;
        guard.release().await.unwrap(); // wakes the first waiter, which is dropped before it runs
        dropped.abort();
        let outcome = timeout(SOON, waiter).await.expect("the lock is free");
        drop(outcome.unwrap().unwrap());
        locks.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn ends_a_lease_without_renewal() {
    let locks = LockManager::in_memory();
    let began = Instant::now();
    let first = locks.lock("k").ttl(ms(300)).renew(false).await.unwrap();
    let second = locks.lock("k").wait(SOON).await.unwrap();
    assert!(began.elapsed() >= ms(300), "{:?}", began.elapsed());
    assert!(first.is_lost());
    let error = first.release().await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert!(locks.lock("k").await.unwrap_err().is_busy(), "the second holder's lock was released");
    second.release().await.unwrap();
}

#[tokio::test]
async fn renews_a_held_lease() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    guard.run(sleep(ms(1_400))).await.unwrap();
    assert!(locks.lock("k").await.unwrap_err().is_busy());
    guard.release().await.unwrap();
}

#[redis_lock(key = "<key>", ttl = "300ms", renew = false, manager = locks)]
async fn longer_than_its_lease(
    locks: &LockManager,
    key: &str,
    done: &Cell<bool>,
) -> Result<(), LockError> {
    sleep(SOON).await;
    done.set(true);
    Ok(())
}

#[tokio::test]
async fn stops_the_body_on_a_loss() {
    let (locks, done) = (LockManager::in_memory(), Cell::new(false));
    let began = Instant::now();
    let error = longer_than_its_lease(&locks, "k", &done).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { cause: LossCause::Expired, .. }), "{error}");
    assert!(began.elapsed() < ms(1_000) && !done.get());
}

#[tokio::test]
async fn ends_the_hold_at_max_hold() {
    let locks = LockManager::in_memory();
    let began = Instant::now();
    let guard = locks.lock("k").ttl(ms(1_000)).max_hold(ms(500)).await.unwrap();
    let error = guard.run(std::future::pending::<()>()).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { cause: LossCause::MaxHold, .. }), "{error}");
    assert!(began.elapsed() >= ms(500) && began.elapsed() < ms(1_000), "{:?}", began.elapsed());
    drop(guard);
    locks.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn keeps_the_key_for_min_hold() {
    let locks = LockManager::in_memory();
    let began = Instant::now();
    let guard = locks.lock("k").min_hold(ms(300)).await.unwrap();
    guard.release().await.unwrap();
    assert!(locks.lock("k").await.unwrap_err().is_busy());
    let guard = locks.lock("k").wait(SOON).await.unwrap();
    assert!(began.elapsed() >= ms(300) && began.elapsed() < ms(1_000), "{:?}", began.elapsed());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn frees_the_lock_of_a_dropped_or_panicking_holder() {
    let locks = LockManager::in_memory();
    drop(locks.lock("k").await.unwrap());
    let guard = locks.lock("k").wait(SOON).await.unwrap();
    let holder = tokio::spawn(async move { guard.run(async { panic!("on purpose") }).await });
    assert!(holder.await.unwrap_err().is_panic());
    locks.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn drains_on_shutdown() {
    let locks = LockManager::in_memory();
    let other = locks.clone();
    let guard = locks.lock("k").await.unwrap();
    drop(guard);
    timeout(SOON, locks.shutdown()).await.unwrap();
    let error = other.lock("k").await.unwrap_err();
    assert!(matches!(error, LockError::NotConfigured { .. }), "{error}");
}
