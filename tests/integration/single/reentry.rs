//! Calls that request a lock that they already hold.

use std::pin::Pin;
use std::time::{Duration, Instant};

use harness::Server;
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use crate::support::{SOON, is_acquire, ms, setup};

#[redis_lock(key = "order:<id>", ttl = "2s", wait = "500ms", manager = locks)]
async fn inner(locks: &LockManager, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order:<id>", ttl = "2s", wait = "forever", manager = locks)]
async fn patient_inner(locks: &LockManager, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "order:<id>", ttl = "2s", manager = locks)]
async fn outer(locks: &LockManager, id: u64) -> Result<u64, LockError> {
    tokio::task::yield_now().await;
    inner(locks, id).await
}

#[redis_lock(key = "order:<id>", ttl = "2s", manager = locks)]
async fn outer_patient(locks: &LockManager, id: u64) -> Result<u64, LockError> {
    tokio::join!(async {}, patient_inner(locks, id)).1
}

#[tokio::test]
async fn f69_reports_reentry_at_once() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    for nested in [
        Box::pin(outer(&locks, 1)) as Pin<Box<dyn Future<Output = _>>>,
        Box::pin(outer_patient(&locks, 1)),
    ] {
        let began = Instant::now();
        let error =
            timeout(SOON, nested).await.expect("the call waits for its own lock").unwrap_err();
        assert!(matches!(error, LockError::AlreadyHeld { .. }), "{error}");
        assert!(error.to_string().contains(r#""order:1""#), "{error}");
        assert!(began.elapsed() < ms(450), "{:?}", began.elapsed());
        assert!(!redis.exists("order:1").await.unwrap());
    }
    log.settle().await;
    let requests = log.count(|entry| is_acquire(entry, "order:1"));
    assert_eq!(requests, 2, "inner calls send no request");
    assert_eq!(inner(&locks, 1).await.unwrap(), 1);
}

#[tokio::test]
async fn f69_allows_other_keys_and_other_tasks() {
    let (_server, locks, _) = setup().await;
    let guard = locks.lock("order:1").await.unwrap();
    let inside = async {
        assert_eq!(inner(&locks, 2).await.unwrap(), 2);
        let spawned = locks.clone();
        let error = tokio::spawn(async move { inner(&spawned, 1).await });
        let error = error.await.unwrap().unwrap_err();
        assert!(error.is_busy(), "another task may wait: {error}");
        let error = locks.lock("order:1").await.unwrap_err();
        assert!(matches!(error, LockError::AlreadyHeld { .. }), "{error}");
    };
    guard.run(inside).await.unwrap();
    let error = locks.lock("order:1").await.unwrap_err();
    assert!(error.is_busy(), "outside of `run`: {error}");
    guard.release().await.unwrap();
}

#[redis_lock(key = "slow", ttl = "2s", wait = "5s", manager = locks)]
async fn slow(locks: &LockManager) -> Result<(), LockError> {
    sleep(ms(50)).await;
    Ok(())
}

#[tokio::test]
async fn f69_lets_sibling_calls_in_one_task_wait() {
    let (_server, locks, _) = setup().await;
    let (a, b, c) = tokio::join!(slow(&locks), slow(&locks), slow(&locks));
    assert!(a.is_ok() && b.is_ok() && c.is_ok(), "{a:?} {b:?} {c:?}");
}

#[tokio::test]
async fn f69_forgets_a_dropped_body() {
    let (_server, locks, _) = setup().await;
    let guard = locks.lock("order:1").await.unwrap();
    timeout(ms(20), guard.run(sleep(SOON))).await.unwrap_err();
    drop(guard);
    assert_eq!(inner(&locks, 1).await.unwrap(), 1);
}

struct Shop {
    locks: LockManager,
    base: u64,
    redis: MultiplexedConnection,
}

impl Shop {
    async fn a(&self, id: u64) -> Result<bool, LockError> {
        self.b(id).await
    }

    async fn a_by_pointer(&self, id: u64) -> Result<bool, LockError> {
        let pointer: for<'a> fn(&'a Self, u64) -> Boxed<'a> = |shop, id| Box::pin(shop.b(id));
        pointer(self, id).await
    }

    async fn a_boxed(&self, id: u64) -> Result<bool, LockError> {
        let boxed: Boxed<'_> = Box::pin(self.b(id));
        boxed.await
    }

    /// Returns whether the key exists during the call.
    #[redis_lock(key = "b:<id>", ttl = "5s", manager = self.locks)]
    async fn b(&self, id: u64) -> Result<bool, LockError> {
        sleep(Duration::from_millis(20 * self.base)).await;
        Ok(self.redis.clone().exists(format!("b:{id}")).await.unwrap())
    }
}

type Boxed<'a> = Pin<Box<dyn Future<Output = Result<bool, LockError>> + 'a>>;

#[tokio::test]
async fn holds_the_key_however_the_function_is_called() {
    let (_server, locks, redis) = setup().await;
    let shop = Shop { locks, base: 2, redis };
    assert!(shop.a(1).await.unwrap());
    assert!(shop.a_by_pointer(1).await.unwrap());
    assert!(shop.a_boxed(1).await.unwrap());
    assert!((Shop::b)(&shop, 1).await.unwrap());
    assert!(!shop.redis.clone().exists("b:1").await.unwrap());
}

/// Acquires one lock and then, holding it, the other.
async fn both(locks: &LockManager, [first, second]: [&str; 2]) -> Result<(), LockError> {
    let outer = locks.lock(first).ttl(SOON).await?;
    let inside = async {
        sleep(ms(100)).await; // until the other task has its first lock
        locks.lock(second).ttl(SOON).wait(ms(700)).await?.release().await
    };
    outer.run(inside).await??;
    outer.release().await
}

#[tokio::test]
async fn f70_ends_a_deadlock_with_the_wait() {
    let server = Server::start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let began = Instant::now();
    let (ab, ba) = tokio::join!(both(&locks, ["a", "b"]), both(&locks, ["b", "a"]));
    assert!(began.elapsed() < ms(2_500), "{:?}", began.elapsed());
    let failures = [ab, ba].into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert!(!failures.is_empty() && failures.iter().all(LockError::is_busy), "{failures:?}");
    let mut redis = server.connection().await;
    for key in ["a", "b"] {
        harness::eventually("the lock is free", SOON, async || !redis.exists(key).await.unwrap())
            .await;
    }
}
