//! The arguments other than `key` and `ttl`.

use std::time::Duration;

use harness::eventually;
use lock_runtime::{LockError, LockManager, LossCause, redis_lock};
use redis::AsyncTypedCommands;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::support::{AppError, exists, holding, locking, server, tick, work};

async fn hold_for(key: &str, time: Duration) {
    let guard = LockManager::global().unwrap().lock(key).await.unwrap();
    tokio::spawn(async move {
        sleep(time).await;
        guard.release().await.unwrap();
    });
}

#[redis_lock(key = "wait:<id>", ttl = "5s")]
async fn once(id: u64) -> Result<u64, LockError> {
    Ok(id)
}
#[redis_lock(key = "wait:<id>", ttl = "5s", wait = "0s")]
async fn zero(id: u64) -> Result<u64, LockError> {
    Ok(id)
}
#[redis_lock(key = "wait:<id>", ttl = "5s", wait = "200ms")]
async fn limited(id: u64) -> Result<u64, LockError> {
    Ok(id)
}
#[redis_lock(key = "wait:<id>", ttl = "5s", wait = Duration::from_secs(20))]
async fn long(id: u64) -> Result<u64, LockError> {
    Ok(id)
}
#[redis_lock(key = "wait:<id>", ttl = "5s", wait = "forever")]
async fn forever(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::test]
async fn limits_the_wait() {
    server().await;
    let _guard = LockManager::global().unwrap().lock("wait:1").await.unwrap();

    let start = Instant::now();
    assert!(once(1).await.unwrap_err().is_busy());
    assert!(zero(1).await.unwrap_err().is_busy());
    assert!(limited(1).await.unwrap_err().is_busy());
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn ends_the_wait_when_the_lock_is_free() {
    server().await;
    hold_for("wait:2", Duration::from_millis(300)).await;
    assert_eq!(long(2).await.unwrap(), 2);
    hold_for("wait:2", Duration::from_millis(300)).await;
    assert_eq!(forever(2).await.unwrap(), 2);
}

#[redis_lock(key = "renewed:<id>", ttl = "1s")]
async fn renewed(id: u64) -> Result<u64, LockError> {
    sleep(Duration::from_millis(1_500)).await;
    Ok(id)
}
#[redis_lock(key = "unrenewed:<id>", ttl = "1s", renew = false)]
async fn unrenewed(id: u64) -> Result<u64, LockError> {
    sleep(Duration::from_secs(9)).await;
    Ok(id)
}
#[redis_lock(key = "max:<id>", ttl = "5s", max_hold = "200ms")]
async fn max_hold(id: u64) -> Result<u64, LockError> {
    sleep(Duration::from_secs(9)).await;
    Ok(id)
}

#[tokio::test]
async fn renews_the_lock() {
    server().await;
    assert_eq!(renewed(1).await.unwrap(), 1);
    let lost = unrenewed(1).await.unwrap_err();
    assert!(matches!(lost, LockError::Lost { cause: LossCause::Expired, .. }), "{lost}");
}

#[tokio::test]
async fn stops_the_body_at_max_hold() {
    server().await;
    let lost = max_hold(1).await.unwrap_err();
    assert!(matches!(lost, LockError::Lost { cause: LossCause::MaxHold, .. }), "{lost}");
}

#[redis_lock(key = "min:<id>", ttl = "20s", min_hold = "10s")]
async fn min_hold(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::test]
async fn keeps_the_key_for_min_hold() {
    let mut redis = server().await.connection().await;
    assert_eq!(min_hold(1).await.unwrap(), 1);
    let left: i64 = redis::cmd("PTTL").arg("min:1").query_async(&mut redis).await.unwrap();
    assert!((9_000..=10_000).contains(&left), "{left}");
    assert!(min_hold(1).await.unwrap_err().is_busy());
    redis.del("min:1").await.unwrap();
}

#[redis_lock(key = "else:<id>", ttl = "5s", or_else = |_| id)]
async fn closure(id: u64) -> u64 {
    tick().await;
    id + 1
}
#[redis_lock(key = "else:<id>", ttl = "5s", or_else = Some)]
async fn path(id: u64) -> Option<LockError> {
    work(id).await.unwrap();
    None
}
#[redis_lock(key = "else:<id>", ttl = "5s", or_else = |error| Err(error.is_busy()))]
async fn result(id: u64) -> Result<u64, bool> {
    Ok(id)
}
#[redis_lock(key = "else:<id>", ttl = "5s", or_else = |_| ())]
async fn no_return_type(id: u64) {
    let _ = work(id).await;
}
#[redis_lock(key = "else:<id>", ttl = "5s", or_else = |_| T::default())]
async fn generic<T: Default + Clone>(id: u64, value: &T) -> T {
    work(id).await.unwrap();
    value.clone()
}
#[redis_lock(key = "else:<id>", ttl = "5s", or_else = |_| Ok("locked".to_owned()))]
async fn opaque(id: u64) -> impl std::fmt::Debug {
    if id == 0 { Err::<String, _>("zero") } else { Ok(id.to_string()) }
}

#[tokio::test]
async fn returns_the_value_of_or_else_without_the_lock() {
    server().await;
    assert_eq!(holding("else:2", closure(2)).await, 3);
    assert!(holding("else:2", path(2)).await.is_none());
    assert_eq!(locking("else:2", result(2)).await, Ok(2));
    holding("else:2", no_return_type(2)).await;
    assert_eq!(locking("else:2", generic(2, &7)).await, 7);
    assert_eq!(format!("{:?}", locking("else:2", opaque(2)).await), "Ok(\"2\")");

    let _guard = LockManager::global().unwrap().lock("else:1").await.unwrap();
    assert_eq!(closure(1).await, 1);
    assert!(path(1).await.is_some_and(|error| error.is_busy()));
    assert_eq!(result(1).await, Err(true));
    no_return_type(1).await;
    assert_eq!(generic(1, &7).await, 0);
    assert_eq!(format!("{:?}", opaque(1).await), "Ok(\"locked\")");
}

#[redis_lock(key = "stolen:<id>", ttl = "5s", or_else = |error| Err(error.to_string()))]
async fn stolen(id: u64, fail: bool, taken: oneshot::Receiver<()>) -> Result<u64, String> {
    taken.await.unwrap();
    if fail { Err("the body's own".to_owned()) } else { Ok(id) }
}

#[tokio::test]
async fn replaces_only_a_success_with_or_else_after_a_loss() {
    let mut redis = server().await.connection().await;
    for (fail, expected) in [(false, "was lost"), (true, "the body's own")] {
        let (taken, body) = oneshot::channel();
        let call = tokio::spawn(stolen(1, fail, body));
        eventually("the lock is held", Duration::from_secs(5), async || {
            exists(&mut redis, "stolen:1").await
        })
        .await;
        redis.del("stolen:1").await.unwrap();
        taken.send(()).unwrap();
        let error = call.await.unwrap().unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[redis_lock(key = "lease:<id>", ttl = "5s", lease = held)]
async fn lease(id: u64) -> Result<lock_runtime::Lease, AppError> {
    work(id).await?;
    assert!(!held.is_lost());
    assert!(held.remaining() > Duration::from_secs(4) && held.remaining() < Duration::from_secs(5));
    Ok(held)
}

#[tokio::test]
async fn binds_the_lease_in_the_body() {
    let lease = holding("lease:1", lease(1)).await.unwrap();
    assert_eq!(lease.remaining(), Duration::ZERO);
}

struct Service {
    locks: LockManager,
    wait: Duration,
}

impl Service {
    #[redis_lock(key = "own:<id>", ttl = "5s", wait = self.wait, manager = self.locks)]
    async fn own(&self, id: u64) -> Result<u64, LockError> {
        let busy = self.locks.lock(format!("own:{id}")).wait(self.wait).await;
        busy.map(|_| id)
    }
    #[redis_lock(key = "lent:<id>", ttl = "5s", manager = &self.locks)]
    async fn lent(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
    #[redis_lock(
        key = "every:<id>", ttl = "30s", wait = "2s", renew = true, max_hold = "5m",
        min_hold = "1ms", or_else = Err, lease = held, manager = self.locks.clone(),
        crate = lock_runtime,
    )]
    async fn every_argument(&self, id: u64) -> Result<u64, LockError> {
        assert!(held.remaining() > Duration::from_secs(28));
        Ok(id)
    }
}

#[tokio::test]
async fn locks_in_the_given_manager() {
    let log = server().await.log();
    let service = Service { locks: LockManager::in_memory(), wait: Duration::from_millis(50) };
    assert!(matches!(service.own(1).await, Err(LockError::AlreadyHeld { .. })));
    assert_eq!(service.lent(1).await.unwrap(), 1);
    assert_eq!(service.every_argument(1).await.unwrap(), 1);
    log.settle().await;
    for key in ["own:1", "lent:1", "every:1"] {
        assert_eq!(log.commands_on(key), [], "{key}");
    }

    let service = Service { locks: LockManager::global().unwrap(), ..service };
    assert_eq!(locking("lent:2", service.lent(2)).await.unwrap(), 2);
}
