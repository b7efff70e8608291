//! A server that goes away and comes back, at each step of a lock's life.
//!
//! It keeps its data, so that what is held stays held; `Away` says how it goes.

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
enum Away {
    /// The process is killed, and started again.
    Killed,
    /// Connections are cut and refused, and accepted again.
    Cut,
    /// What is sent is swallowed, and then the connections are cut.
    Silent,
}

const WAYS: [Away; 3] = [Away::Killed, Away::Cut, Away::Silent];

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

    fn goes(&self, way: Away) {
        match way {
            Away::Killed => self.server.kill(),
            Away::Cut => {
                self.proxy.refuse();
                self.proxy.cut();
            }
            Away::Silent => self.proxy.both_ways(Mode::Lose),
        }
    }

    async fn comes_back(&mut self, way: Away) {
        match way {
            Away::Killed => self.server.restart().await,
            Away::Cut => self.proxy.accept(),
            Away::Silent => self.proxy.both_ways(Mode::Pass),
        }
    }

    async fn is_free(&self, key: &str) -> bool {
        !self.server.connection().await.exists(key).await.unwrap()
    }

    /// The same manager takes and gives back `key`, without an error.
    async fn works_again(&self, key: &str, way: Away) {
        let guard = self.locks.lock(key).wait(SOON).await;
        let guard = guard.unwrap_or_else(|error| panic!("{way:?}: {error}"));
        assert!(!self.is_free(key).await);
        guard.release().await.unwrap();
        assert!(self.is_free(key).await);
    }

    /// The server goes while somebody is `asking` for `k`. That ends with an error, and what it did is undone
    /// when the server comes back.
    async fn cuts_off(&mut self, asking: JoinHandle<Result<LockGuard, LockError>>, way: Away) {
        self.goes(way);
        let outcome = asking.await.unwrap();
        assert!(outcome.as_ref().is_err_and(LockError::is_unavailable), "{way:?}: {outcome:?}");
        self.proxy.both_ways(Mode::Pass);
        self.comes_back(way).await;
        eventually("an unknown outcome is cleaned up", SOON, async || self.is_free("k").await)
            .await;
        self.works_again("k", way).await;
    }
}

#[tokio::test]
async fn before_an_acquire() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        setup.goes(way);
        let error = setup.locks.lock("k").await.unwrap_err();
        assert!(error.is_unavailable(), "{way:?}: {error}");
        setup.comes_back(way).await;
        setup.works_again("k", way).await;
    }))
    .await;
}

#[tokio::test]
async fn during_an_acquire() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        setup.proxy.to_server(Mode::Hold);
        let sent = setup.proxy.until_sent("EVAL");
        let asking = tokio::spawn(setup.locks.lock("k").ttl(ms(60_000)).into_future());
        sent.await;
        setup.cuts_off(asking, way).await;
    }))
    .await;
}

#[tokio::test]
async fn during_the_answer_to_an_acquire() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        setup.proxy.to_client(Mode::Hold);
        let asking = tokio::spawn(setup.locks.lock("k").ttl(ms(60_000)).into_future());
        eventually("it is taken", SOON, async || !setup.is_free("k").await).await;
        setup.cuts_off(asking, way).await;
    }))
    .await;
}

#[tokio::test]
async fn while_waiting() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        let mut redis = setup.server.connection().await;
        occupy(&mut redis, "k", ms(900)).await;
        let waiting = tokio::spawn(setup.locks.lock("k").wait(ms(30_000)).into_future());
        sleep(ms(150)).await;
        setup.goes(way);
        sleep(TIMEOUT * 2).await;
        assert!(!waiting.is_finished(), "{way:?}: it has given up too early");
        setup.comes_back(way).await;
        let guard = timeout(SOON, waiting).await.expect("it waits on").unwrap().unwrap();
        guard.release().await.unwrap();
    }))
    .await;
}

#[tokio::test]
async fn while_holding_and_back_before_the_lease_ends() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        let guard = setup.locks.lock("k").ttl(ms(3_000)).await.unwrap();
        let token = setup.server.connection().await.get("k").await.unwrap();
        let outage = async {
            sleep(ms(1_800)).await;
            setup.goes(way);
            sleep(ms(400)).await;
            setup.comes_back(way).await;
        };
        // The first renewal fails, and one of those after it succeeds.
        let (held, ()) = tokio::join!(guard.run(sleep(ms(3_300))), outage);
        held.unwrap_or_else(|error| panic!("{way:?}: {error}"));
        assert_eq!(setup.server.connection().await.get("k").await.unwrap(), token);
        guard.release().await.unwrap();
        setup.works_again("k", way).await;
    }))
    .await;
}

#[tokio::test]
async fn while_holding_and_back_after_the_lease_has_ended() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        let guard = setup.locks.lock("k").ttl(ms(500)).await.unwrap();
        let began = Instant::now();
        setup.goes(way);
        let error = guard.run(sleep(SOON)).await.unwrap_err();
        assert!(matches!(error, LockError::Lost { cause: LossCause::Expired, .. }), "{error}");
        assert!(began.elapsed() < ms(1_500), "{way:?}: {:?}", began.elapsed());
        drop(guard);
        setup.comes_back(way).await;
        setup.works_again("k", way).await;
    }))
    .await;
}

#[tokio::test]
async fn during_a_release() {
    join_all(WAYS.map(async |way| {
        let mut setup = Setup::new().await;
        let guard = setup.locks.lock("k").ttl(ms(60_000)).await.unwrap();
        setup.proxy.to_server(Mode::Hold);
        let sent = setup.proxy.until_sent("EVAL");
        let releasing = tokio::spawn(guard.release());
        sent.await;
        setup.goes(way);
        let outcome = releasing.await.unwrap();
        assert!(outcome.as_ref().is_err_and(LockError::is_unavailable), "{way:?}: {outcome:?}");
        setup.proxy.to_server(Mode::Pass);
        setup.comes_back(way).await;
        eventually("it is released in the background", SOON, async || setup.is_free("k").await)
            .await;
        setup.works_again("k", way).await;
    }))
    .await;
}

#[tokio::test]
async fn a_server_that_forgets_is_a_loss_and_then_works_again() {
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
async fn many_times_with_many_calls() {
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
        setup.goes(way);
        sleep(ms(150)).await;
        setup.comes_back(way).await;
    }
    for caller in callers {
        timeout(SOON * 3, caller).await.expect("it goes on").unwrap();
    }
    for n in 0..4 {
        let key = format!("k{n}");
        eventually("it is free", SOON, async || setup.is_free(&key).await).await;
    }
}
