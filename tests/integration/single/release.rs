//! The end of a call: its release and its result.

use std::error::Error as _;
use std::num::ParseIntError;
use std::time::{Duration, Instant};

use harness::{Mode, Proxy, Server, run};
use lock_runtime::{LockError, LockManager, LossCause, redis_lock};
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;
use tracing::Level;

use crate::support::{AT_ONCE, SOON, is_release, is_renewal, logged, ms, setup, wait_until_absent};

/// Returns whether a warning or an error with `key`, other than a loss, was logged.
fn failure_is_logged(key: &str) -> bool {
    let is_failure =
        |(level, message): &(Level, String)| *level <= Level::WARN && message != "lost";
    logged::events(key).iter().any(is_failure)
}

#[tokio::test]
async fn keeps_the_error_of_the_body_when_the_server_is_gone() {
    #[redis_lock(key = "failed-body", ttl = "5s", manager = manager)]
    async fn work(manager: &LockManager, server: &Server) -> anyhow::Result<u64> {
        server.kill();
        Ok("seven".parse()?)
    }

    logged::record();
    let (server, locks, _) = setup().await;
    let end = work(&locks, &server).await;
    assert!(end.as_ref().is_err_and(anyhow::Error::is::<ParseIntError>), "{end:?}");
    assert!(failure_is_logged("failed-body"), "{:#?}", logged::events("failed-body"));
}

#[tokio::test]
async fn f104_reports_a_loss_when_the_body_outlives_its_lease() {
    #[redis_lock(key = "awaiting-body", ttl = "200ms", renew = false, manager = manager)]
    async fn awaits(manager: &LockManager) -> Result<(), LockError> {
        sleep(ms(400)).await;
        Ok(())
    }
    #[redis_lock(key = "blocking-body", ttl = "200ms", renew = false, manager = manager)]
    async fn blocks(manager: &LockManager) -> Result<(), LockError> {
        std::thread::sleep(ms(400));
        Ok(())
    }

    let (_server, locks, _) = setup().await;
    for end in [awaits(&locks).await, blocks(&locks).await] {
        assert!(matches!(end, Err(LockError::Lost { cause: LossCause::Expired, .. })), "{end:?}");
    }
}

#[tokio::test]
async fn distinguishes_busy_lost_and_unavailable() {
    #[redis_lock(key = "three-errors:<id>", ttl = "1s", wait = "0s", manager = manager)]
    async fn work(
        manager: &LockManager,
        id: u64,
        redis: &mut MultiplexedConnection,
    ) -> Result<(), LockError> {
        redis.del(format!("three-errors:{id}")).await.unwrap();
        Ok(())
    }

    let (server, locks, mut redis) = setup().await;
    let b = LockManager::connect(server.url()).await.unwrap();
    let guard = b.lock("three-errors:1").await.unwrap();
    let busy = work(&locks, 1, &mut redis).await.unwrap_err();
    guard.release().await.unwrap();
    let lost = work(&locks, 2, &mut redis).await.unwrap_err();
    server.kill();
    let down = work(&locks, 3, &mut redis).await.unwrap_err();

    let LockError::Busy { key, .. } = &busy else { panic!("{busy:?}") };
    assert_eq!(key.as_str(), "three-errors:1");
    assert!(busy.to_string().contains("three-errors:1"), "{busy}");
    let LockError::Lost { key, cause: LossCause::Taken, .. } = &lost else { panic!("{lost:?}") };
    assert_eq!(key.as_str(), "three-errors:2");
    assert!(lost.to_string().contains("three-errors:2"), "{lost}");
    let LockError::Unavailable { key, source, .. } = &down else { panic!("{down:?}") };
    assert_eq!(key.as_ref().unwrap().as_str(), "three-errors:3");
    for part in ["three-errors:3", "acquire", &source.to_string()] {
        assert!(down.to_string().contains(part), "{down}");
    }
    assert!(down.source().is_some());

    let wrong_port = LockManager::connect(server.url()).await.unwrap_err();
    assert!(matches!(wrong_port, LockError::Unavailable { .. }), "{wrong_port:?}");
    assert!(wrong_port.to_string().contains("connect"), "{wrong_port}");
    assert!(wrong_port.source().is_some());
}

#[tokio::test]
async fn keeps_the_result_when_the_release_is_refused() {
    #[redis_lock(key = "refused-release", ttl = "1s", manager = manager)]
    async fn work(
        manager: &LockManager,
        redis: &mut MultiplexedConnection,
    ) -> Result<u64, LockError> {
        run(redis, "CONFIG SET min-replicas-to-write 1").await;
        Ok(7)
    }

    logged::record();
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    assert_eq!(work(&locks, &mut redis).await.unwrap(), 7);
    assert!(redis.exists("refused-release").await.unwrap(), "the release was not refused");
    assert!(failure_is_logged("refused-release"), "{:#?}", logged::events("refused-release"));
    wait_until_absent(&mut redis, "refused-release", ms(1_500)).await;
    log.settle().await;
    assert_eq!(log.count(|entry| is_renewal(entry, "1000")), 0);
    let events = logged::events("refused-release");
    let is_failed = |message: &str| message == "renewal failed, will be retried";
    assert!(!events.iter().any(|(_, message)| is_failed(message)), "{events:?}");
}

/// The server has released the lock, and replies "not yours" to the repeated release.
#[tokio::test]
async fn f09_reports_no_loss_without_a_reply_to_the_release() {
    #[redis_lock(key = "f09", ttl = "30s", manager = manager)]
    async fn work(manager: &LockManager, proxy: &Proxy) -> Result<u64, LockError> {
        proxy.lose_reply_to("EVAL"); // of the release
        Ok(7)
    }

    logged::record();
    let server = Server::start().await;
    let (proxy, log) = (Proxy::start(server.addr()), server.log());
    let mut redis = server.connection().await;
    let limit = Duration::from_millis(200);
    let locks = LockManager::builder().timeout(limit).connect(proxy.url()).await.unwrap();

    let start = Instant::now();
    assert_eq!(work(&locks, &proxy).await.unwrap(), 7);
    assert!(start.elapsed() >= limit, "the reply has arrived");
    wait_until_absent(&mut redis, "f09", AT_ONCE).await;

    proxy.to_client(Mode::Pass); // cuts the connection without replies
    let guard = locks.lock("f09").await.unwrap();
    proxy.lose_reply_to("EVAL");
    let released = guard.release().await;
    assert!(matches!(released, Err(LockError::Unavailable { .. })), "{released:?}");

    locks.shutdown().await;
    assert!(!logged::logs_loss("f09"));
    log.settle().await;
    assert!(log.count(|entry| is_release(entry, "f09")) >= 4, "the release was not repeated");
}

/// Scripts that the server no longer knows are sent in full.
#[tokio::test]
async fn f48_resends_flushed_scripts() {
    #[redis_lock(key = "f48", ttl = "1s", manager = manager)]
    async fn work(
        manager: &LockManager,
        redis: &mut MultiplexedConnection,
        time: Duration,
    ) -> Result<(), LockError> {
        run(redis, "SCRIPT FLUSH").await;
        sleep(time).await;
        run(redis, "SCRIPT FLUSH").await;
        Ok(())
    }

    let (mut server, locks, mut redis) = setup().await;
    let log = server.log();
    for round in 0..20 {
        work(&locks, &mut redis, Duration::ZERO).await.unwrap();
        assert!(!redis.exists("f48").await.unwrap(), "not released in round {round}");
    }
    work(&locks, &mut redis, ms(800)).await.unwrap();
    log.wait_for(|entry| entry.is("PEXPIRE"), SOON).await;
    assert_eq!(log.count(|entry| entry.is("SCRIPT") && entry.args[1] == "LOAD"), 0);

    server.restart().await;
    let guard = locks.lock("f48").wait(SOON).await.unwrap();
    guard.release().await.unwrap();
}
