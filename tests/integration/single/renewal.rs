//! Renewals, and their end.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use harness::{Mode, Proxy, Server, eventually};
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands as _;
use tokio::runtime::Handle;
use tokio::sync::Barrier;
use tokio::time::{sleep, timeout};
use tracing::Level;

use crate::support::{
    AT_ONCE, SOON, count_keys, is_renewal, logged, ms, setup, tokens, wait_until_absent, warm_up,
};

#[tokio::test]
async fn f104_retries_a_failed_renewal() {
    #[redis_lock(key = "retried-renewal", ttl = "4500ms", manager = manager)]
    async fn work(manager: &LockManager) -> Result<(), LockError> {
        sleep(ms(6_000)).await;
        Ok(())
    }

    logged::record();
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let mut redis = server.connection().await;
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    let call = tokio::spawn(async move { work(&locks).await });
    sleep(ms(400)).await;
    let token = redis.get("retried-renewal").await.unwrap();
    proxy.refuse();
    proxy.cut();
    let failed =
        || logged::events("retried-renewal").iter().any(|(level, _)| *level == Level::WARN);
    eventually("the first renewal fails", SOON, async || failed()).await;
    proxy.accept();

    sleep(ms(2_000)).await; // longer than the lease
    assert!(token.is_some());
    assert_eq!(redis.get("retried-renewal").await.unwrap(), token);
    call.await.unwrap().unwrap();
    assert!(!redis.exists("retried-renewal").await.unwrap());
}

#[tokio::test]
async fn ends_all_tasks_with_the_call() {
    #[redis_lock(key = "ended-call:<end>", ttl = "700ms", manager = manager)]
    async fn work(manager: &LockManager, end: &'static str) -> Result<(), anyhow::Error> {
        sleep(ms(600)).await; // long enough for a renewal
        match end {
            "error" => anyhow::bail!("an error"),
            "panic" => panic!("boom"),
            "return" => Ok(()),
            _ => pending().await,
        }
    }

    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    work(&locks, "return").await.unwrap(); // opens all connections
    let start = tasks();
    let ends = ["return", "error", "panic", "drop", "abort"];
    let [returned, failed, panicked, dropped, aborted] = ends.map(|end| {
        let locks = locks.clone();
        tokio::spawn(async move {
            let limit = if end == "drop" { ms(700) } else { SOON };
            timeout(limit, work(&locks, end)).await.ok()
        })
    });
    assert!(returned.await.unwrap().unwrap().is_ok());
    assert_eq!(failed.await.unwrap().unwrap().unwrap_err().to_string(), "an error");
    assert!(panicked.await.unwrap_err().is_panic());
    assert!(dropped.await.unwrap().is_none());
    aborted.abort();
    assert!(aborted.await.unwrap_err().is_cancelled());

    for end in ends {
        wait_until_absent(&mut redis, &format!("ended-call:{end}"), AT_ONCE).await;
    }
    eventually("the tasks have ended", AT_ONCE, async || tasks() == start).await;
    log.settle().await;
    let renewals = || log.count(|entry| is_renewal(entry, "700"));
    let before = renewals();
    assert!(before >= 6);
    sleep(ms(2_500)).await;
    log.settle().await;
    assert_eq!(renewals(), before);
}

#[tokio::test]
async fn sends_no_renewal_after_the_release() {
    #[redis_lock(key = "released-key:<id>", ttl = "3s", manager = manager)]
    async fn work(manager: &LockManager, id: u64, time: Duration) -> Result<(), LockError> {
        sleep(time).await;
        Ok(())
    }

    logged::record();
    let (server, locks, _) = setup().await;
    let log = server.log();
    for wave in 0..4 {
        // A lease of 3 s is renewed after 1,776 to 1,973 ms.
        let calls = (0..250).map(|id| work(&locks, 250 * wave + id, ms(1_770 + id % 220)));
        for end in join_all(calls).await {
            end.unwrap();
        }
    }
    locks.shutdown().await;
    log.settle().await;

    let mut renewed = 0;
    let mut released = HashMap::new();
    for entry in log.entries() {
        let Some(key) = entry.args.iter().find(|arg| arg.starts_with("released-key:")) else {
            continue;
        };
        assert!(!released.contains_key(key), "{entry:?} after the release");
        renewed += usize::from(entry.is("pexpire"));
        if entry.is("DEL") {
            released.insert(key.clone(), entry);
        }
    }
    assert_eq!(released.len(), 1_000);
    assert!(renewed >= 100, "{renewed} of 1,000 were renewed");
    for id in 0..1_000 {
        assert!(!logged::logs_loss(&format!("released-key:{id}")));
    }
}

/// The server knows the scripts of acquires and releases, but not yet the one of renewals.
#[tokio::test]
async fn sends_no_first_renewal_after_the_release() {
    #[redis_lock(key = "first-renewal", ttl = "1s", manager = manager)]
    async fn work(manager: &LockManager, proxy: &Proxy) -> Result<(), LockError> {
        proxy.to_client(Mode::Delay(ms(30)));
        proxy.until_sent("first-renewal\r\n").await; // the renewal
        Ok(())
    }

    let server = Server::start().await;
    let (proxy, log) = (Proxy::start(server.addr()), server.log());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;
    work(&locks, &proxy).await.unwrap();
    locks.shutdown().await;
    sleep(ms(200)).await;
    log.settle().await;

    let token = &tokens(&log, "first-renewal")[0];
    let commands = log.commands_on(token);
    assert!(commands.iter().any(|entry| is_renewal(entry, "1000")), "{commands:#?}");
    let released = log.commands_on("first-renewal").pop().filter(|entry| entry.is("DEL"));
    assert!(released.is_some(), "there are commands after the release: {commands:#?}");
}

/// The bodies return while a renewal is in transit, for as long as the proxy holds it.
#[tokio::test]
async fn f33_reports_no_loss_with_a_renewal_in_flight() {
    #[redis_lock(key = "f33:<id>", ttl = "1s", manager = manager)]
    async fn work(
        manager: &LockManager,
        id: u64,
        gate: &Barrier,
        proxy: &Proxy,
        ended: &AtomicU32,
    ) -> Result<(), LockError> {
        gate.wait().await;
        proxy.until_sent(format!("f33:{id}\r\n")).await; // the renewal
        ended.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    logged::record();
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let mut redis = server.connection().await;
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    let log = server.log();
    let (gate, ended) = (Barrier::new(17), AtomicU32::new(0));
    let calls = join_all((0..16).map(|id| work(&locks, id, &gate, &proxy, &ended)));
    let network = async {
        for id in 0..16 {
            let key = format!("f33:{id}");
            log.wait_for(|entry| entry.is("PEXPIRE") && entry.has(&key), SOON).await;
        }
        sleep(ms(100)).await; // until the replies arrive
        proxy.to_server(Mode::Hold);
        gate.wait().await;
        let some = async || ended.load(Ordering::Relaxed) > 0;
        eventually("bodies end while they are renewed", SOON, some).await;
        sleep(ms(50)).await;
        proxy.to_server(Mode::Pass);
    };
    let (ends, ()) = tokio::join!(calls, network);

    for end in ends {
        end.unwrap();
    }
    locks.shutdown().await;
    assert_eq!(count_keys(&mut redis).await, 0);
    for id in 0..16 {
        assert!(!logged::logs_loss(&format!("f33:{id}")));
    }
}

/// Only `ttl` and `min_hold` could send a ttl below 1 ms, because there is no manual renewal.
#[tokio::test]
async fn f32_sends_no_ttl_below_a_millisecond() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    for short in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999)] {
        for renew in [true, false] {
            let end = locks.lock("short-ttl").ttl(short).renew(renew).await;
            assert!(matches!(end, Err(LockError::InvalidOption { .. })), "{short:?}: {end:?}");
        }
    }
    log.settle().await;
    assert!(log.commands_on("short-ttl").is_empty());

    for micros in (1..1_000).step_by(111).chain(5_000..5_010) {
        let guard =
            locks.lock("short-ttl").wait(SOON).min_hold(Duration::from_micros(micros)).await;
        guard.unwrap().release().await.unwrap();
    }
    log.settle().await;
    for entry in log.commands_on("short-ttl").iter().filter(|entry| entry.is("PEXPIRE")) {
        assert!(entry.args[2].parse::<u64>().unwrap() >= 1, "{entry:?}");
    }
}
