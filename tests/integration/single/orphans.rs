//! Acquires with an unknown outcome.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use harness::{Entry, Mode, Proxy, Server};
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::support::{
    AT_ONCE, SOON, is_acquire, is_grant, is_release, is_renewal, ms, tokens, wait_for_waiters,
    wait_until_absent, warm_up,
};

const TIMEOUT: Duration = Duration::from_millis(200);
/// A call that does not wait ends after three timeouts.
const CALL_LIMIT: Duration = Duration::from_millis(600 + 300);

#[redis_lock(key = "orphan:<id>", ttl = "30s", manager = manager)]
async fn run(manager: &LockManager, id: u64, runs: &AtomicU32) -> Result<(), LockError> {
    runs.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn setup() -> (Server, Proxy, LockManager, MultiplexedConnection) {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::builder().timeout(TIMEOUT).connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;
    let redis = server.connection().await;
    (server, proxy, locks, redis)
}

#[tokio::test]
async fn releases_a_lock_whose_reply_was_lost() {
    let (server, proxy, locks, mut redis) = setup().await;
    let (log, runs) = (server.log(), AtomicU32::new(0));
    proxy.to_client(Mode::Lose);
    let cut_off = async {
        log.wait_for(|entry| is_grant(entry, "orphan:64"), SOON).await;
        proxy.to_server(Mode::Lose);
    };
    let start = Instant::now();
    let (end, ()) = tokio::join!(run(&locks, 64, &runs), cut_off);

    assert!(matches!(end, Err(LockError::Unavailable { .. })), "{end:?}");
    assert!(start.elapsed() < CALL_LIMIT, "{:?}", start.elapsed());
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    assert!(redis.exists("orphan:64").await.unwrap(), "it cannot be released yet");
    proxy.both_ways(Mode::Pass);
    wait_until_absent(&mut redis, "orphan:64", AT_ONCE).await;
    run(&locks, 64, &runs).await.unwrap();
}

#[tokio::test]
async fn leaves_nothing_of_a_call_dropped_during_its_request() {
    #[redis_lock(key = "dropped-call:<round>", ttl = "5s", manager = manager)]
    async fn hold(manager: &LockManager, round: u64) -> Result<(), LockError> {
        std::future::pending().await
    }

    let (server, proxy, locks, mut redis) = setup().await;
    let log = server.log();
    proxy.to_client(Mode::Delay(ms(3))); // some are dropped before the reply, some after it
    for round in 0..100 {
        let sent = proxy.until_sent(format!("dropped-call:{round}\r\n"));
        let dropped = async {
            sent.await;
            sleep(ms(round % 6)).await;
        };
        tokio::select! {
            () = dropped => {}
            _ = hold(&locks, round) => unreachable!("the body never ends"),
        }
    }

    for round in 0..100 {
        wait_until_absent(&mut redis, &format!("dropped-call:{round}"), AT_ONCE).await;
    }
    log.settle().await;
    let locked = |entry: &Entry| entry.is("SET") && entry.args[1].starts_with("dropped-call:");
    assert_eq!(log.count(locked), 100);
    assert_eq!(log.count(|entry| is_renewal(entry, "5000")), 0);
}

/// The request reaches a busy server, and the caller is gone when its turn comes.
#[tokio::test]
async fn f01_leaves_nothing_of_a_call_dropped_before_its_turn() {
    let (server, _proxy, locks, mut redis) = setup().await;
    let (log, runs) = (server.log(), AtomicU32::new(0));
    harness::run(&mut redis, "CLIENT PAUSE 400 WRITE").await;
    timeout(ms(100), run(&locks, 1, &runs)).await.unwrap_err();

    log.wait_for(|entry| is_grant(entry, "orphan:1"), SOON).await;
    wait_until_absent(&mut redis, "orphan:1", AT_ONCE).await;
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

/// The caller does not know whether the request was sent, so the clean-up follows anyway.
#[tokio::test(flavor = "current_thread")]
async fn f02_leaves_nothing_of_a_call_dropped_before_sending() {
    let (server, _proxy, locks, mut redis) = setup().await;
    let (log, runs) = (server.log(), AtomicU32::new(0));
    for id in 200..250 {
        let end = run(&locks, id, &runs).now_or_never(); // polled once, and dropped
        assert!(end.is_none(), "{end:?}");
    }
    for id in 200..250 {
        let key = format!("orphan:{id}");
        log.wait_for(|entry| is_release(entry, &key), SOON).await;
        assert!(tokens(&log, &key).is_empty(), "the request was sent");
        wait_until_absent(&mut redis, &key, AT_ONCE).await;
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn f03_releases_a_lock_granted_after_the_error() {
    let (server, _proxy, locks, mut redis) = setup().await;
    let (log, runs) = (server.log(), AtomicU32::new(0));
    harness::run(&mut redis, "CLIENT PAUSE 1000 WRITE").await;
    let start = Instant::now();
    let end = run(&locks, 3, &runs).await;

    assert!(matches!(end, Err(LockError::Unavailable { .. })), "{end:?}");
    assert!(start.elapsed() < CALL_LIMIT, "{:?}", start.elapsed());
    assert!(tokens(&log, "orphan:3").is_empty(), "the server has not run it yet");
    log.wait_for(|entry| is_grant(entry, "orphan:3"), SOON).await;
    wait_until_absent(&mut redis, "orphan:3", AT_ONCE).await;
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

/// A call that waits retries, and must not wait for its own lock.
#[tokio::test]
async fn f04_acquires_again_after_a_reply_was_cut_off() {
    #[redis_lock(key = "f04", ttl = "30s", wait = "2s", manager = manager)]
    async fn patient(manager: &LockManager) -> Result<(), LockError> {
        Ok(())
    }

    let (server, proxy, locks, mut redis) = setup().await;
    let log = server.log();
    proxy.lose_reply_to("EVAL");
    let cut = async {
        log.wait_for(|entry| is_grant(entry, "f04"), SOON).await;
        proxy.cut();
    };
    let (end, ()) = tokio::join!(patient(&locks), cut);

    end.unwrap();
    wait_until_absent(&mut redis, "f04", AT_ONCE).await;
    log.settle().await;
    let tokens = tokens(&log, "f04");
    assert!(tokens.len() > 1 && tokens[0] != tokens[1], "{tokens:?}");
}

/// A clean-up on another connection overtakes the attempt that is still in transit.
#[tokio::test]
async fn f06_cleans_up_after_a_late_attempt() {
    let (server, proxy, locks, mut redis) = setup().await;
    let (log, runs) = (server.log(), AtomicU32::new(0));
    bypass(&proxy, &server).await;
    proxy.to_server(Mode::Hold);
    let end = run(&locks, 6, &runs).await;
    assert!(matches!(end, Err(LockError::Unavailable { .. })), "{end:?}");
    log.wait_for(|entry| is_release(entry, "orphan:6"), SOON).await;
    assert!(tokens(&log, "orphan:6").is_empty(), "the attempt has arrived");
    proxy.to_server(Mode::Pass);

    log.wait_for(|entry| is_grant(entry, "orphan:6"), SOON).await;
    wait_until_absent(&mut redis, "orphan:6", AT_ONCE).await;
    run(&locks, 6, &runs).await.unwrap();
    log.settle().await;
    let tokens = tokens(&log, "orphan:6");
    assert!(tokens.len() == 2 && tokens[0] != tokens[1], "{tokens:?}");
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

/// Repeats a client's request on the server, as a client library with retries would.
async fn repeat(redis: &mut MultiplexedConnection, request: &Entry) {
    redis::cmd(request.name()).arg(&request.args[1..]).exec_async(redis).await.unwrap();
}

#[tokio::test]
async fn f07_expires_the_grant_of_a_repeated_request() {
    #[redis_lock(key = "f07", ttl = "1s", manager = manager)]
    async fn work(manager: &LockManager, runs: &AtomicU32) -> Result<(), LockError> {
        runs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    let (server, _proxy, locks, mut redis) = setup().await;
    let (log, runs) = (server.log(), AtomicU32::new(0));
    work(&locks, &runs).await.unwrap();
    let request = log.wait_for(|entry| is_acquire(entry, "f07"), SOON).await;
    repeat(&mut redis, &request).await;
    let repeated = Instant::now();
    let token = &tokens(&log, "f07")[0];
    assert_eq!(redis.get("f07").await.unwrap().as_ref(), Some(token));

    let guard = locks.lock("f07").ttl(ms(1_000)).wait(SOON).await.unwrap();
    let waited = repeated.elapsed();
    assert!((ms(900)..ms(2_500)).contains(&waited), "{waited:?}");
    log.settle().await;
    assert_eq!(log.count(|entry| is_renewal(entry, "1000") && entry.has(token)), 0);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    guard.release().await.unwrap();
}

/// The lock is handed to a waiter that has already released it, and expires.
#[tokio::test]
async fn f07_expires_the_grant_of_a_repeated_poll() {
    let (server, _proxy, locks, mut redis) = setup().await;
    let log = server.log();
    let wait = || tokio::spawn(locks.lock("k").ttl(ms(600)).wait(SOON).into_future());
    let guard = locks.lock("k").await.unwrap();
    let waiting = wait();
    wait_for_waiters(&mut redis, "k", 1).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    log.settle().await;
    let token = tokens(&log, "k").pop().unwrap();
    let poll = log.wait_for(|entry| is_acquire(entry, "k") && entry.has(&token), SOON).await;

    let guard = locks.lock("k").await.unwrap();
    repeat(&mut redis, &poll).await;
    let waiting = wait();
    wait_for_waiters(&mut redis, "k", 2).await;
    guard.release().await.unwrap();
    let released = Instant::now();
    assert_eq!(redis.get("k").await.unwrap().as_ref(), Some(&token));
    let guard = waiting.await.unwrap().unwrap();
    assert!(released.elapsed() < ms(1_500), "{:?}", released.elapsed());
    log.settle().await;
    assert_eq!(log.count(|entry| is_renewal(entry, "600") && entry.has(&token)), 0);
    guard.release().await.unwrap();
}

/// Redirects new connections past the proxy.
async fn bypass(proxy: &Proxy, server: &Server) {
    proxy.refuse();
    let listener = TcpListener::bind(proxy.addr()).await.unwrap();
    let addr = server.addr();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = TcpStream::connect(addr).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
}
