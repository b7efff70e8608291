//! A server that is unreachable or does not reply.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use harness::{Entry, Mode, Proxy, Server, run};
use lock_runtime::{LockError, LockManager, LossCause, redis_lock};
use tokio::time::timeout;

use crate::support::{SOON, clients, is_grant, is_renewal, ms, pttl, setup, wait_for_waiters};

const TIMEOUT: Duration = ms(200);

/// Returns a manager with a short timeout.
async fn quick(url: String) -> LockManager {
    LockManager::builder().timeout(TIMEOUT).connect(url).await.unwrap()
}

#[redis_lock(key = "order:<id>", ttl = "5s", manager = locks)]
async fn count(locks: &LockManager, id: u64, runs: &Cell<u32>) -> Result<(), LockError> {
    runs.set(runs.get() + 1);
    Ok(())
}

/// Returns the error of a call that cannot reach its server, after checking that it came in time
/// and that the body did not run.
async fn refused(locks: &LockManager, limit: Duration) -> LockError {
    let runs = Cell::new(0);
    let began = Instant::now();
    let error = timeout(SOON, count(locks, 42, &runs)).await.expect("the call ends").unwrap_err();
    assert!(began.elapsed() < limit, "{:?}: {error}", began.elapsed());
    assert_eq!(runs.get(), 0);
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains(r#""order:42""#), "{error}");
    error
}

#[tokio::test]
async fn runs_no_body_when_no_server_listens() {
    let server = Server::start().await;
    let locks = quick(server.url()).await;
    server.kill();
    let error = refused(&locks, TIMEOUT * 3 + ms(500)).await;
    assert!(error.to_string().contains(&server.addr().to_string()), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn runs_no_body_with_a_wrong_password() {
    let server = Server::builder().password("secret").start().await;
    let locks = quick(server.url()).await;
    let mut redis = server.connection().await;
    run(&mut redis, "CONFIG SET requirepass other").await;
    run(&mut redis, "CLIENT KILL TYPE normal").await;
    let error = refused(&locks, TIMEOUT * 3 + ms(500)).await;
    assert!(!format!("{error} {error:?}").contains("secret"));
}

#[tokio::test]
async fn runs_no_body_when_every_command_fails() {
    let (server, _, mut redis) = setup().await;
    run(&mut redis, "ACL SETUSER app on >pass ~* +@all").await;
    let locks = quick(server.url_as("app", "pass")).await;
    run(&mut redis, "ACL SETUSER app -@all").await;
    let error = refused(&locks, TIMEOUT * 3 + ms(500)).await;
    assert!(error.to_string().contains("no permission"), "{error}");
}

#[tokio::test]
async fn reports_a_paused_server_within_three_timeouts() {
    let server = Server::start().await;
    let locks = quick(server.url()).await;
    server.pause();
    for _ in 0..3 {
        refused(&locks, TIMEOUT * 3 + ms(400)).await;
    }
    server.resume();
    let guard = locks.lock("order:42").wait(SOON).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn tolerates_five_timeouts_in_a_waiting_call() {
    let server = Server::start().await;
    let locks = quick(server.url()).await;
    server.pause();
    let began = Instant::now();
    let error = locks.lock("k").wait(ms(60_000)).await.unwrap_err();
    let took = began.elapsed();
    assert!(error.is_unavailable(), "{error}");
    assert!(took >= TIMEOUT * 4 && took < TIMEOUT * 5 + ms(600), "{took:?}");

    let waiter = locks.lock("k").wait(ms(60_000));
    let (guard, ()) = tokio::join!(waiter, async {
        tokio::time::sleep(TIMEOUT * 2).await;
        server.resume();
    });
    guard.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn stops_a_body_at_its_deadline() {
    let server = Server::start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    server.pause();
    let began = Instant::now();
    let work = tokio::time::sleep(ms(60_000));
    let error = guard.run(work).await.unwrap_err();
    let took = began.elapsed();
    assert!(matches!(error, LockError::Lost { cause: LossCause::Expired, .. }), "{error}");
    assert!(took > ms(600) && took < ms(1_400), "{took:?}");

    server.resume();
    drop(guard);
    locks.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
}

/// The lock has expired when the server continues, and queued renewals do not restore it. The
/// holder has stopped at its own deadline.
#[tokio::test]
async fn f26_reports_a_stall_longer_than_the_ttl_as_a_loss() {
    let server = Server::builder().config("enable-debug-command local").start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let other = LockManager::connect(server.url()).await.unwrap();
    let (mut redis, log) = (server.connection().await, server.log());
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    let waiting = tokio::spawn(async move {
        let guard = other.lock("k").ttl(ms(3_000)).wait(SOON).await.unwrap();
        (guard, Instant::now())
    });
    wait_for_waiters(&mut redis, "k", 1).await;
    let stall = tokio::spawn(async move { run(&mut redis, "DEBUG SLEEP 1.6").await });
    let cause = timeout(SOON, guard.lost()).await.expect("the hold ends");
    let lost = Instant::now();
    assert!(!stall.is_finished(), "the server has replied");
    assert_eq!(cause, LossCause::Expired);

    let (next, granted) = waiting.await.unwrap();
    stall.await.unwrap();
    assert!(granted > lost && next.fence() > guard.fence());
    next.run(tokio::time::sleep(ms(300))).await.unwrap();
    log.settle().await;
    let mut commands = log.commands_on("k");
    let granted = commands.iter().rfind(|entry| is_grant(entry, "k")).unwrap().at;
    commands.retain(|entry| entry.at + ms(1_500) > granted && entry.at < granted + ms(300));
    let renewals = commands.iter().filter(|entry| is_renewal(entry, "1000")).count();
    assert!(renewals > 0, "no renewal has queued up");
    assert!(!commands.iter().any(|entry| entry.is("PEXPIRE")), "{commands:#?}");
    assert!(guard.release().await.unwrap_err().is_lost());
    next.release().await.unwrap();
}

#[tokio::test]
async fn renews_the_holder_while_a_call_waits() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let request = locks.lock("k").ttl(ms(1_000)).wait(ms(20_000));
        waiters.spawn(async { request.await.unwrap().release().await.unwrap() });
    }
    guard.run(tokio::time::sleep(ms(2_000))).await.unwrap();
    guard.release().await.unwrap();
    waiters.join_all().await;

    log.settle().await;
    let commands = log.commands_on("k");
    let deleted = commands.iter().position(|entry| entry.is("DEL")).unwrap();
    let renewed = commands[..deleted].iter().filter(|entry| entry.is("PEXPIRE"));
    assert!(renewed.clone().all(Entry::from_script) && renewed.count() >= 2);
    let clients = clients(&mut redis).await;
    assert!(clients.len() <= 2, "the callers' and the manager's own: {clients:#?}");
    assert_eq!(pttl(&mut redis, "k").await, -2);
}

#[tokio::test]
async fn f53_replaces_killed_connections_without_an_error() {
    join_all(["", "?protocol=resp2"].map(async |query| {
        let server = Server::start().await;
        let locks = LockManager::connect(format!("{}/{query}", server.url())).await.unwrap();
        let guard = locks.lock("long").ttl(ms(1_500)).await.unwrap();
        let lease = guard.lease();
        for round in 0..4 {
            let mut redis = server.connection().await;
            run(&mut redis, "CLIENT KILL TYPE normal").await;
            let key = format!("k{round}");
            locks.lock(key).await.unwrap().release().await.unwrap();
            tokio::time::sleep(ms(400)).await;
        }
        assert!(!lease.is_lost());
        guard.release().await.unwrap();
    }))
    .await;
}

#[tokio::test]
async fn f53_replaces_closed_idle_connections_without_an_error() {
    let server = Server::builder().config("timeout 1").start().await;
    join_all(["", "?protocol=resp2"].map(async |query| {
        let locks = LockManager::connect(format!("{}/{query}", server.url())).await.unwrap();
        let key = format!("k{query}");
        let guard = locks.lock(&key).await.unwrap();
        tokio::time::sleep(ms(2_200)).await;
        let other = locks.lock(format!("other{query}")).await.unwrap();
        guard.release().await.unwrap();
        other.release().await.unwrap();
    }))
    .await;
}

#[tokio::test]
async fn f53_releases_after_its_connection_was_killed() {
    for query in ["", "?protocol=resp2"] {
        let server = Server::start().await;
        let locks = LockManager::connect(format!("{}/{query}", server.url())).await.unwrap();
        let mut redis = server.connection().await;
        let guard = locks.lock("k").await.unwrap();
        run(&mut redis, "CLIENT KILL TYPE normal").await;
        let released = guard.release().await;
        assert!(released.is_ok(), "{query}: {released:?}");
    }
}

#[tokio::test]
async fn f54_leaves_a_connection_that_loses_all_packets() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = quick(proxy.url()).await;
    let guard = locks.lock("held").ttl(ms(2_000)).await.unwrap();
    let before = proxy.connections();
    proxy.lose_reply_to("k1");
    let mut outcomes = Vec::new();
    for key in ["k1", "k2", "k3"] {
        outcomes.push(locks.lock(key).await.is_ok());
    }
    assert!(!outcomes[0] && outcomes[2], "{outcomes:?}");
    assert!(proxy.connections() > before);
    // Leases are renewed over their own connection.
    guard.run(tokio::time::sleep(ms(1_000))).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn f54_renews_over_another_connection_before_the_lease_ends() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = quick(proxy.url()).await;
    let guard = locks.lock("k").ttl(ms(3_000)).await.unwrap();
    proxy.lose_reply_to("EVAL");
    guard.run(tokio::time::sleep(ms(3_300))).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn tolerates_a_network_outage_during_a_wait() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = quick(proxy.url()).await;
    let (guard, ()) = tokio::join!(locks.lock("k").wait(ms(30_000)), async {
        proxy.both_ways(Mode::Hold);
        tokio::time::sleep(TIMEOUT * 3).await;
        proxy.both_ways(Mode::Pass);
    });
    guard.unwrap().release().await.unwrap();
}
