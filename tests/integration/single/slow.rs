//! A network that is slow in relation to the ttl of a lock.

use std::time::Instant;

use futures_util::future::{join_all, select_all};
use harness::{Mode, Proxy, Server, eventually};
use lock_runtime::{LockError, LockGuard, LockManager};
use tokio::time::timeout;

use crate::support::{AT_ONCE, SOON, ms, tokens, wait_until_absent, warm_up};

/// The next renewal is scheduled from the instant before the last one was sent, not from its reply.
#[tokio::test]
async fn f30_meets_deadlines_when_replies_take_a_fifth_of_the_ttl() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let builder = LockManager::builder().timeout(ms(5_000));
    let (locks, log) = (builder.connect(proxy.url()).await.unwrap(), server.log());
    warm_up(&locks).await;
    proxy.both_ways(Mode::Delay(ms(800)));
    let requests = (0..4).map(|n| locks.lock(format!("f30:{n}")).ttl(ms(8_000)).into_future());
    let guards: Vec<_> = join_all(requests).await.into_iter().map(Result::unwrap).collect();
    let lost = select_all(guards.iter().map(|guard| Box::pin(guard.lost())));
    let outcome = timeout(ms(13_500), lost).await.map(|(cause, ..)| cause);
    assert!(outcome.is_err(), "a lease was lost: {outcome:?}");

    log.settle().await;
    for n in 0..4 {
        let key = format!("f30:{n}");
        let renewals = log.count(|entry| entry.is("PEXPIRE") && entry.has(&key));
        assert!((2..=20).contains(&renewals), "{key} was renewed {renewals} times");
    }
    for released in join_all(guards.into_iter().map(LockGuard::release)).await {
        released.unwrap();
    }
}

/// Another connection would be just as slow, and three round trips late.
#[tokio::test]
async fn f30_keeps_a_slow_connection() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;
    proxy.both_ways(Mode::Delay(ms(400)));
    let requests = (0..4).map(|n| locks.lock(format!("f30:{n}")).ttl(ms(4_000)).into_future());
    let guards: Vec<_> = join_all(requests).await.into_iter().map(Result::unwrap).collect();
    let renewed = async || {
        let mut before = guards[0].remaining();
        eventually("the lease is extended", SOON, async || {
            let left = guards[0].remaining();
            left > std::mem::replace(&mut before, left)
        })
        .await;
    };
    renewed().await; // the first slow renewal might be lost
    let connections = proxy.connections();
    renewed().await;
    renewed().await;
    assert_eq!(proxy.connections(), connections);
    assert!(guards.iter().all(|guard| !guard.is_lost()));
}

#[tokio::test]
async fn f31_reports_replies_slower_than_the_ttl() {
    const TIMEOUT: u32 = 900;
    let server = Server::start().await;
    let (proxy, log) = (Proxy::start(server.addr()), server.log());
    let mut redis = server.connection().await;
    let builder = LockManager::builder().timeout(ms(1) * TIMEOUT);
    let locks = builder.connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;
    proxy.to_client(Mode::Delay(ms(400)));
    let request = || locks.lock("f31").ttl(ms(400));
    let requests = [
        (request(), ms(1) * TIMEOUT * 3),
        (request().wait(SOON * 6), ms(1) * TIMEOUT * 5),
        (request().wait_forever(), ms(1) * TIMEOUT * 5),
    ];
    for (request, limit) in requests {
        let began = Instant::now();
        let error = timeout(SOON * 2, request).await.expect("the call ends").unwrap_err();
        let took = began.elapsed();
        assert!(took < limit + ms(3_000), "{took:?}");
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("the lease of 400ms had run out"), "{error}");
        wait_until_absent(&mut redis, "f31", AT_ONCE).await;
    }
    assert!(tokens(&log, "f31").len() >= 3, "each attempt has a token of its own");

    proxy.to_client(Mode::Pass);
    request().wait(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn f31_ends_an_endless_wait_when_replies_exceed_the_ttl() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::builder().timeout(ms(900)).connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;
    proxy.to_client(Mode::Delay(ms(400)));
    let request = || locks.lock("k").ttl(ms(400)).wait_forever();
    for end in join_all((0..4).map(|_| timeout(SOON * 6, request()))).await {
        let error = end.expect("the call ends").unwrap_err();
        assert!(error.to_string().contains("the lease of 400ms had run out"), "{error}");
    }
}
