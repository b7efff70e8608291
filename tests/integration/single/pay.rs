//! The function of the README, on a server that is killed and restarted.
//!
//! It uses the installed manager, so each test runs in a process of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use harness::{Server, eventually};
use lock_runtime::{LockError, LockManager, LossCause, redis_lock};
use redis::AsyncTypedCommands;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::support::{SOON, in_own_process, ms, pttl};

/// How many bodies have begun.
static RUNS: AtomicU32 = AtomicU32::new(0);
/// Notified when a body has begun.
static BEGUN: Notify = Notify::const_new();
/// Lets a body end.
static END: Notify = Notify::const_new();

#[redis_lock(key = "order:<id>", ttl = "30s")]
async fn pay(id: u64) -> Result<String, LockError> {
    RUNS.fetch_add(1, Ordering::SeqCst);
    BEGUN.notify_one();
    END.notified().await;
    Ok(format!("order {id} is paid"))
}

#[redis_lock(key = "order:<id>", ttl = "2s")]
async fn pay_quickly(id: u64, end: Duration) -> Result<String, LockError> {
    RUNS.fetch_add(1, Ordering::SeqCst);
    BEGUN.notify_one();
    sleep(end).await;
    RUNS.fetch_add(100, Ordering::SeqCst); // the code after the await
    Ok(format!("order {id} is paid"))
}

fn runs() -> u32 {
    RUNS.load(Ordering::SeqCst)
}

/// Starts a server that persists its data, and installs a manager for it.
async fn start() -> Server {
    let builder = Server::builder().config("appendonly yes").config("appendfsync always");
    let server = builder.start().await;
    LockManager::connect(server.url()).await.unwrap().install();
    server
}

async fn is_free(server: &Server) -> bool {
    !server.connection().await.exists("order:42").await.unwrap()
}

#[tokio::test]
async fn reports_a_busy_lock() {
    if !in_own_process("single::pay::reports_a_busy_lock").await {
        return;
    }
    let server = start().await;
    let first = tokio::spawn(pay(42));
    BEGUN.notified().await;
    let error = pay(42).await.unwrap_err();
    let LockError::Busy { holder, retry_after, .. } = &error else { panic!("{error}") };
    let mut redis = server.connection().await;
    assert_eq!(holder.as_deref(), redis.get("order:42").await.unwrap().as_deref());
    assert!(retry_after.unwrap() > ms(20_000) && retry_after.unwrap() <= ms(30_000), "{error}");
    assert!(pttl(&mut redis, "order:42").await > 20_000);
    END.notify_one();
    assert_eq!(first.await.unwrap().unwrap(), "order 42 is paid");
    assert_eq!(runs(), 1);
    assert!(is_free(&server).await);
}

#[tokio::test]
async fn reports_redis_down_before_the_body() {
    if !in_own_process("single::pay::reports_redis_down_before_the_body").await {
        return;
    }
    let mut server = start().await;
    server.kill();
    let began = Instant::now();
    let error = pay(42).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(began.elapsed() < ms(3_500), "{:?}", began.elapsed());
    assert_eq!(runs(), 0);
    server.restart().await;
    END.notify_one();
    pay(42).await.unwrap();
    assert!(is_free(&server).await);
}

#[tokio::test]
async fn reports_a_late_reply_before_the_body() {
    if !in_own_process("single::pay::reports_a_late_reply_before_the_body").await {
        return;
    }
    let server = start().await;
    server.pause();
    let error = pay(42).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    server.resume(); // and it grants the lock late
    eventually("the lock is released", SOON, async || is_free(&server).await).await;
    assert_eq!(runs(), 0);
    END.notify_one();
    pay(42).await.unwrap();
}

#[tokio::test]
async fn keeps_the_lock_over_an_outage_during_the_body() {
    if !in_own_process("single::pay::keeps_the_lock_over_an_outage_during_the_body").await {
        return;
    }
    let mut server = start().await;
    let paying = tokio::spawn(pay(42));
    BEGUN.notified().await;
    server.restart().await;
    assert!(!paying.is_finished() && !is_free(&server).await);
    assert!(pay(42).await.unwrap_err().is_busy());
    END.notify_one();
    assert_eq!(paying.await.unwrap().unwrap(), "order 42 is paid");
    eventually("the lock is released", SOON, async || is_free(&server).await).await;

    let quickly = tokio::spawn(pay_quickly(42, ms(2_500)));
    BEGUN.notified().await;
    sleep(ms(300)).await;
    server.restart().await;
    assert_eq!(quickly.await.unwrap().unwrap(), "order 42 is paid");
    eventually("the lock is released", SOON, async || is_free(&server).await).await;
}

#[tokio::test]
async fn returns_the_result_when_redis_is_down_after_the_body() {
    if !in_own_process("single::pay::returns_the_result_when_redis_is_down_after_the_body").await {
        return;
    }
    let mut server = start().await;
    let paying = tokio::spawn(pay(42));
    BEGUN.notified().await;
    server.kill();
    END.notify_one();
    assert_eq!(paying.await.unwrap().unwrap(), "order 42 is paid");
    sleep(ms(300)).await;
    server.restart().await;
    assert!(pttl(&mut server.connection().await, "order:42").await != -1);
    eventually("the lock is released", SOON, async || is_free(&server).await).await;
    END.notify_one();
    pay(42).await.unwrap();
}

#[tokio::test]
async fn stops_the_body_when_the_lease_is_lost() {
    if !in_own_process("single::pay::stops_the_body_when_the_lease_is_lost").await {
        return;
    }
    let mut server = start().await;
    let began = Instant::now();
    let paying = tokio::spawn(pay_quickly(42, SOON));
    BEGUN.notified().await;
    server.kill();
    let error = paying.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { cause: LossCause::Expired, .. }), "{error}");
    assert!(began.elapsed() < ms(3_000), "{:?}", began.elapsed());
    assert_eq!(runs(), 1, "the body was not stopped at its await");
    server.restart().await;
    eventually("the lock is free", SOON, async || is_free(&server).await).await;
    pay_quickly(42, ms(1)).await.unwrap();
}

#[tokio::test]
async fn releases_for_a_caller_gone_while_redis_is_down() {
    if !in_own_process("single::pay::releases_for_a_caller_gone_while_redis_is_down").await {
        return;
    }
    let mut server = start().await;
    let paying = tokio::spawn(pay(42));
    BEGUN.notified().await;
    server.kill();
    paying.abort();
    assert!(paying.await.unwrap_err().is_cancelled());
    sleep(ms(200)).await;
    server.restart().await;
    eventually("the lock is released", SOON, async || is_free(&server).await).await;
    END.notify_one();
    pay(42).await.unwrap();
}

#[tokio::test]
async fn loses_the_lock_when_redis_loses_its_data() {
    if !in_own_process("single::pay::loses_the_lock_when_redis_loses_its_data").await {
        return;
    }
    let mut server = Server::start().await;
    LockManager::connect(server.url()).await.unwrap().install();
    let paying = tokio::spawn(pay(42));
    BEGUN.notified().await;
    server.restart().await;
    END.notify_one();
    let error = paying.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { cause: LossCause::Taken, .. }), "{error}");
    END.notify_one();
    pay(42).await.unwrap();
}
