//! Invalid input at run time: keys, durations, missing managers and runtimes.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Server, run};
use lock_runtime::{LockError, LockManager, LockRequest, redis_lock};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;

use crate::support::{SOON, in_own_process, is_script, ms, occupy, pttl, setup};

#[redis_lock(key = "order:<id>", ttl = "5s")]
async fn pay(id: u32, runs: &Cell<u32>) -> Result<(), LockError> {
    runs.set(runs.get() + id);
    Ok(())
}

#[tokio::test]
async fn explains_how_to_install_a_missing_manager() {
    if !in_own_process("single::bad_input::explains_how_to_install_a_missing_manager").await {
        return;
    }
    let runs = Cell::new(0);
    let error = pay(1, &runs).await.unwrap_err();
    assert!(matches!(error, LockError::NotConfigured { .. }), "{error}");
    assert!(error.to_string().contains("install()"), "{error}");
    assert!(LockManager::global().is_err());
    assert_eq!(runs.get(), 0);

    LockManager::in_memory().install();
    pay(1, &runs).await.unwrap();
    assert_eq!(runs.get(), 1);
}

/// Returns the error of an invalid request, which comes at once and names the key.
async fn rejected(request: LockRequest, key: &str) -> LockError {
    let began = Instant::now();
    let error = request.wait(SOON).await.unwrap_err();
    assert!(began.elapsed() < ms(1_000), "{:?}", began.elapsed());
    assert!(error.to_string().contains(key), "{error}");
    error
}

#[redis_lock(key = "a:<part>:b", ttl = "5s", manager = locks)]
async fn by_part(locks: &LockManager, part: &str, runs: &Cell<u32>) -> Result<(), LockError> {
    runs.set(runs.get() + 1);
    Ok(())
}

#[tokio::test]
async fn f66_rejects_empty_and_huge_values() {
    let (server, locks, _) = setup().await;
    let (log, runs) = (server.log(), Cell::new(0));
    for part in ["", &"x".repeat(513), &"é".repeat(257), &"x".repeat(1 << 20)] {
        let error = by_part(&locks, part, &runs).await.unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("a:<part>:b") && text.len() < 1_000, "{text}");
    }
    log.settle().await;
    assert_eq!((runs.get(), log.count(is_script)), (0, 0));
    for part in ["x", &"x".repeat(512), &":".repeat(512)] {
        by_part(&locks, part, &runs).await.unwrap();
    }
    assert_eq!(runs.get(), 3);
}

#[redis_lock(key = "a:<x>:<y>", ttl = "5s", manager = locks)]
async fn key_of(
    locks: &LockManager,
    x: &str,
    y: &str,
    redis: &mut MultiplexedConnection,
) -> Result<String, LockError> {
    let mut keys = redis.keys("a:*").await.unwrap();
    assert_eq!(keys.len(), 1);
    Ok(keys.remove(0))
}

#[tokio::test]
async fn f63_maps_different_values_to_different_keys() {
    let (_server, locks, mut redis) = setup().await;
    let pairs = [
        ["1:2", "3"],
        ["1", "2:3"],
        ["1%3A2", "3"],
        ["1%3a2", "3"],
        ["{1}", "3"],
        ["1\r\nDEL x", "3"],
        ["1", "3"],
        ["%", ":"],
        [":", "%"],
        ["%25", ":"],
    ];
    let mut keys = BTreeSet::new();
    for [x, y] in pairs {
        let key = key_of(&locks, x, y, &mut redis).await.unwrap();
        assert_eq!(key.matches(':').count(), 2, "{key}");
        assert!(!key.contains(['{', '\n', '\r']), "{key}");
        assert!(keys.insert(key), "{x:?} and {y:?} share a key with another pair");
    }
    assert!(keys.contains("a:1:3"), "ordinary values are unchanged");
}

#[tokio::test]
async fn rejects_empty_and_too_long_keys() {
    let (_server, locks, _) = setup().await;
    let error = rejected(locks.lock(""), "\"\"").await;
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
    let error = rejected(locks.lock("k".repeat(4_097)), "kkkkkkkk").await;
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
    assert!(error.to_string().len() < 1_000, "{error}");
    locks.lock("k".repeat(4_096)).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn f60_reports_and_keeps_a_key_of_another_type() {
    let (_server, locks, mut redis) = setup().await;
    let keys = [
        ("hash", "HSET hash f v"),
        ("list", "RPUSH list v"),
        ("set", "SADD set v"),
        ("zset", "ZADD zset 1 v"),
        ("stream", "XADD stream * f v"),
    ];
    for (key, command) in keys {
        run(&mut redis, command).await;
        let error = rejected(locks.lock(key), &format!("{key:?}")).await;
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
        assert!(error.to_string().contains(&format!("it holds a {key}")), "{error}");
        let kind: String = redis::cmd("TYPE").arg(key).query_async(&mut redis).await.unwrap();
        assert_eq!((kind.as_str(), pttl(&mut redis, key).await), (key, -1));
        redis.del(key).await.unwrap();
        locks.lock(key).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn f61_reports_and_keeps_a_key_without_expiry() {
    let (_server, locks, mut redis) = setup().await;
    redis.set("k", "some other tool").await.unwrap();
    for wait in [ms(0), ms(200)] {
        let began = Instant::now();
        let error = locks.lock("k").wait(wait).await.unwrap_err();
        assert!(began.elapsed() >= wait && began.elapsed() < wait + ms(500));
        let LockError::Busy { holder, retry_after, .. } = &error else { panic!("{error}") };
        assert_eq!(holder.as_deref(), Some("some other tool"));
        assert_eq!(*retry_after, None);
        assert!(error.to_string().contains("without an expiry"), "{error}");
    }
    assert_eq!(redis.get("k").await.unwrap().as_deref(), Some("some other tool"));
    assert_eq!(pttl(&mut redis, "k").await, -1);
}

#[tokio::test]
async fn shortens_a_huge_or_binary_holder_in_the_error() {
    let (_server, locks, mut redis) = setup().await;
    for value in [vec![b'x'; 1 << 20], vec![0xff, 0, b'\n', 0xfe]] {
        let mut set = redis::cmd("SET");
        set.arg("k").arg(&value).arg("PX").arg(60_000).exec_async(&mut redis).await.unwrap();
        let error = locks.lock("k").await.unwrap_err();
        assert!(error.is_busy(), "{error}");
        let text = error.to_string();
        assert!(text.len() < 500 && !text.contains(char::is_control), "{text}");
    }
}

#[tokio::test]
async fn f32_rejects_durations_out_of_range() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let (server, locks, _) = setup().await;
    let log = server.log();
    let request = || locks.lock("order:1");
    let bad = [
        request().ttl(ms(0)),
        request().ttl(Duration::from_nanos(1)),
        request().ttl(ms(249)),
        request().ttl(ms(99)).renew(false),
        request().ttl(DAY + ms(1)),
        request().ttl(Duration::MAX),
        request().max_hold(ms(0)),
        request().max_hold(Duration::MAX),
        request().ttl(ms(1_000)).min_hold(ms(1_001)),
        request().min_hold(ms(200)).max_hold(ms(100)),
        request().ttl(DAY).min_hold(Duration::MAX),
    ];
    for (n, request) in bad.into_iter().enumerate() {
        let error = rejected(request, r#""order:1""#).await;
        assert!(matches!(error, LockError::InvalidOption { .. }), "{n}: {error}");
    }
    log.settle().await;
    assert_eq!(log.count(|entry| entry.has("order:1")), 0);

    let good = [
        request().ttl(ms(250)),
        request().ttl(ms(100)).renew(false),
        request().ttl(DAY),
        request().ttl(DAY).max_hold(DAY).wait(Duration::MAX),
        request().max_hold(ms(1)).ttl(ms(250)),
        request().ttl(ms(1_000)).min_hold(ms(1)).max_hold(ms(1_000)),
    ];
    for request in good {
        match request.wait(SOON).await {
            Ok(guard) => drop(guard.release().await),
            // The reply may come too late for a short lease.
            Err(error) => assert!(error.is_unavailable(), "{error}"),
        }
    }
}

#[tokio::test]
async fn rejects_acquires_after_shutdown() {
    let (_server, locks, mut redis) = setup().await;
    let (clone, held) = (locks.clone(), locks.lock("held").await.unwrap());
    locks.shutdown().await;
    locks.shutdown().await;
    let error = clone.lock("k").wait(SOON).await.unwrap_err();
    assert!(matches!(error, LockError::NotConfigured { .. }), "{error}");
    assert!(error.to_string().contains("shut down"), "{error}");
    assert!(!redis.exists("k").await.unwrap());
    held.release().await.unwrap();
}

#[tokio::test]
async fn ends_a_wait_when_its_manager_is_shut_down() {
    let (_server, locks, mut redis) = setup().await;
    occupy(&mut redis, "k", ms(600)).await;
    let waiter = tokio::spawn(locks.lock("k").wait(ms(2_000)).into_future());
    tokio::time::sleep(ms(50)).await;
    locks.shutdown().await;
    // Either outcome is fine: an error, or a lock that is held, renewed and released as usual.
    if let Ok(guard) = waiter.await.unwrap() {
        guard.release().await.unwrap();
    }
    assert_eq!(pttl(&mut redis, "k").await, -2);
}

/// Runs `future` on a thread without a runtime.
fn without_runtime<T: Send>(future: impl Future<Output = T> + Send) -> T {
    let poll = || {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        let began = Instant::now();
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            assert!(began.elapsed() < SOON, "the future does not end");
            thread::sleep(ms(1));
        }
    };
    thread::scope(|scope| scope.spawn(poll).join().expect("a typed error, not a panic"))
}

#[test]
fn returns_a_typed_error_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::start());
    let error = without_runtime(LockManager::connect(server.url())).unwrap_err();
    assert!(error.to_string().contains("Tokio runtime"), "{error}");
    assert!(error.to_string().contains(&server.addr().to_string()), "{error}");

    let locks = runtime.block_on(LockManager::connect(server.url())).unwrap();
    let error = without_runtime(locks.lock("order:1").into_future()).unwrap_err();
    assert!(error.to_string().contains("Tokio runtime"), "{error}");
    assert!(error.to_string().contains("order:1"), "{error}");
    let error = without_runtime(locks.lock("order:1").wait(SOON).into_future()).unwrap_err();
    assert!(error.to_string().contains("Tokio runtime"), "{error}");

    runtime.block_on(async { locks.lock("order:1").await.unwrap().release().await.unwrap() });
}

#[test]
fn releases_or_expires_a_held_lock_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::start());
    let locks = runtime.block_on(LockManager::connect(server.url())).unwrap();
    let guard = runtime.block_on(locks.lock("k").ttl(ms(500)).into_future()).unwrap();
    let error = without_runtime(guard.release()).unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let guard = runtime.block_on(locks.lock("k").wait(SOON).into_future()).unwrap();
    runtime.block_on(guard.release()).unwrap();
}

#[test]
fn works_in_memory_or_returns_an_error_without_a_runtime() {
    let locks = LockManager::in_memory();
    let guard = without_runtime(locks.lock("k").into_future()).unwrap();
    assert!(without_runtime(locks.lock("k").into_future()).unwrap_err().is_busy());
    without_runtime(locks.lock("k").wait(ms(50)).into_future()).unwrap_err();
    without_runtime(guard.release()).unwrap();
}
