//! A server that becomes unreachable and recovers, at each step of a lock's life.
//!
//! It keeps its data, so held locks stay held; `Outage` lists the ways.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use harness::{Mode, Proxy, Server, eventually};
use lock_runtime::{LockError, LockGuard, LockManager, LossCause};
use redis::AsyncTypedCommands;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::support::{SOON, ms, occupy, warm_up};

const TIMEOUT: Duration = ms(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// The process is killed and restarted.
    Killed,
    /// Connections are cut and refused for a while.
    Cut,
    /// Bytes are lost, and then the connections are cut.
    Silent,
}

const WAYS: [Outage; 3] = [Outage::Killed, Outage::Cut, Outage::Silent];

struct Setup {
    server: Server,
    proxy: Proxy,
    locks: LockManager,
}

impl Setup {
    async fn new() -> Self {
        let builder = Server::builder().config("appendonly yes").config("appendfsync always");
        let server = builder.start().await;
        let proxy = Proxy::start(server.addr());
        let locks = LockManager::builder().timeout(TIMEOUT).connect(proxy.url()).await.unwrap();
        warm_up(&locks).await;
        Self { server, proxy, locks }
    }

    fn start_outage(&self, way: Outage) {
        match way {
            Outage::Killed => self.server.kill(),
            Outage::Cut => {
                self.proxy.refuse();
                self.proxy.cut();
            }
            Outage::Silent => self.proxy.both_ways(Mode::Lose),
        }
    }

    async fn end_outage(&mut self, way: Outage) {
        match way {
            Outage::Killed => self.server.restart().await,
            Outage::Cut => self.proxy.accept(),
            Outage::Silent => self.proxy.both_ways(Mode::Pass),
        }
    }

    async fn is_free(&self, key: &str) -> bool {
        !self.server.connection().await.exists(key).await.unwrap()
    }

    /// Acquires and releases `key` with the same manager, without an error.
    async fn assert_works(&self, key: &str, way: Outage) {
        let guard = self.locks.lock(key).wait(SOON).await;
        let guard = guard.unwrap_or_else(|error| panic!("{way:?}: {error}"));
        assert!(!self.is_free(key).await);
        guard.release().await.unwrap();
        assert!(self.is_free(key).await);
    }

    /// Begins an outage during an acquire of `k`. The acquire ends with an error, and its effects
    /// are undone when the server recovers.
    async fn interrupt(&mut self, acquire: JoinHandle<Result<LockGuard, LockError>>, way: Outage) {
        self.start_outage(way);
        let outcome = acquire.await.unwrap();
        assert!(outcome.as_ref().is_err_and(LockError::is_unavailable), "{way:?}: {outcome:?}");
        self.proxy.both_ways(Mode::Pass);
        self.end_outage(way).await;
        eventually("an unknown outcome is cleaned up", SOON, async || self.is_free("k").await)
            .await;
        self.assert_works("k", way).await;
    }
}

#[tokio::test]
async fn recovers_from_an_outage_before_an_acquire() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        setup.start_outage(way);
        let error = setup.locks.lock("k").await.unwrap_err();
        assert!(error.is_unavailable(), "{way:?}: {error}");
        setup.end_outage(way).await;
        setup.assert_works("k", way).await;
    }))
    .await;
}

#[tokio::test]
async fn recovers_from_an_outage_during_an_acquire() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        setup.proxy.to_server(Mode::Hold);
        let sent = setup.proxy.until_sent("EVAL");
        let acquire = tokio::spawn(setup.locks.lock("k").ttl(ms(60_000)).into_future());
        sent.await;
        setup.interrupt(acquire, way).await;
    }))
    .await;
}

#[tokio::test]
async fn recovers_from_an_outage_during_the_reply_to_an_acquire() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        setup.proxy.to_client(Mode::Hold);
        let acquire = tokio::spawn(setup.locks.lock("k").ttl(ms(60_000)).into_future());
        eventually("the lock is taken", SOON, async || !setup.is_free("k").await).await;
        setup.interrupt(acquire, way).await;
    }))
    .await;
}

#[tokio::test]
async fn recovers_from_an_outage_during_a_wait() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        let mut redis = setup.server.connection().await;
        occupy(&mut redis, "k", ms(900)).await;
        let waiting = tokio::spawn(setup.locks.lock("k").wait(ms(30_000)).into_future());
        sleep(ms(150)).await;
        setup.start_outage(way);
        sleep(TIMEOUT * 2).await;
        assert!(!waiting.is_finished(), "{way:?}: it has given up too early");
        setup.end_outage(way).await;
        let guard = timeout(SOON, waiting).await.expect("the waiter goes on").unwrap().unwrap();
        guard.release().await.unwrap();
    }))
    .await;
}

#[tokio::test]
async fn keeps_a_lock_over_an_outage_shorter_than_its_lease() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        let guard = setup.locks.lock("k").ttl(ms(3_000)).await.unwrap();
        let token = setup.server.connection().await.get("k").await.unwrap();
        let outage = async {
            sleep(ms(1_800)).await;
            setup.start_outage(way);
            sleep(ms(400)).await;
            setup.end_outage(way).await;
        };
        // The first renewal fails, and a later one succeeds.
        let (held, ()) = tokio::join!(guard.run(sleep(ms(3_300))), outage);
        held.unwrap_or_else(|error| panic!("{way:?}: {error}"));
        assert_eq!(setup.server.connection().await.get("k").await.unwrap(), token);
        guard.release().await.unwrap();
        setup.assert_works("k", way).await;
    }))
    .await;
}

#[tokio::test]
async fn loses_a_lock_in_an_outage_longer_than_its_lease() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        let guard = setup.locks.lock("k").ttl(ms(500)).await.unwrap();
        let began = Instant::now();
        setup.start_outage(way);
        let error = guard.run(sleep(SOON)).await.unwrap_err();
        assert!(matches!(error, LockError::Lost { cause: LossCause::Expired, .. }), "{error}");
        assert!(began.elapsed() < ms(1_500), "{way:?}: {:?}", began.elapsed());
        drop(guard);
        setup.end_outage(way).await;
        setup.assert_works("k", way).await;
    }))
    .await;
}

#[tokio::test]
async fn releases_after_an_outage_during_the_release() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        let guard = setup.locks.lock("k").ttl(ms(60_000)).await.unwrap();
        setup.proxy.to_server(Mode::Hold);
        let sent = setup.proxy.until_sent("EVAL");
        let releasing = tokio::spawn(guard.release());
        sent.await;
        setup.start_outage(way);
        let outcome = releasing.await.unwrap();
        assert!(outcome.as_ref().is_err_and(LockError::is_unavailable), "{way:?}: {outcome:?}");
        setup.proxy.to_server(Mode::Pass);
        setup.end_outage(way).await;
        eventually("the lock is released in the background", SOON, async || {
            setup.is_free("k").await
        })
        .await;
        setup.assert_works("k", way).await;
    }))
    .await;
}

#[tokio::test]
async fn loses_its_lock_when_a_server_loses_its_data() {
    let mut server = Server::start().await;
    let locks = LockManager::builder().timeout(TIMEOUT).connect(server.url()).await.unwrap();
    let guard = locks.lock("k").ttl(ms(3_000)).await.unwrap();
    let began = Instant::now();
    server.restart().await;
    let error = guard.run(sleep(SOON)).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { cause: LossCause::Taken, .. }), "{error}");
    assert!(began.elapsed() < ms(3_000), "{:?}", began.elapsed());
    drop(guard);
    locks.lock("k").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn recovers_from_many_outages_under_load() {
    let mut setup = Setup::new().await;
    let callers: Vec<_> = (0..8)
        .map(|n| {
            let locks = setup.locks.clone();
            tokio::spawn(async move {
                let mut done = 0;
                while done < 20 {
                    match locks.lock(format!("k{}", n % 4)).ttl(ms(2_000)).wait(SOON).await {
                        Ok(guard) => {
                            let _ = guard.run(sleep(ms(10))).await;
                            let _ = guard.release().await;
                            done += 1;
                        }
                        Err(error) => assert!(!matches!(error, LockError::NotConfigured { .. })),
                    }
                }
            })
        })
        .collect();
    for way in WAYS {
        sleep(ms(150)).await;
        setup.start_outage(way);
        sleep(ms(150)).await;
        setup.end_outage(way).await;
    }
    for caller in callers {
        timeout(SOON * 3, caller).await.expect("the caller goes on").unwrap();
    }
    for n in 0..4 {
        let key = format!("k{n}");
        eventually("the lock is free", SOON, async || setup.is_free(&key).await).await;
    }
}
