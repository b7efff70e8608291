//! Guards and views of leases that have ended, and late requests.

use std::thread;

use futures_util::future::join_all;
use harness::{Mode, Proxy, Server, eventually};
use lock_runtime::{LockManager, LossCause};

use crate::support::{SOON, count_keys, is_grant, ms, warm_up};

#[tokio::test]
async fn f35_reports_the_end_of_the_hold_to_a_view() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").await.unwrap();
    let lease = guard.lease();
    assert!(!lease.is_lost());

    let (released, cause) = tokio::join!(guard.release(), lease.lost());

    released.unwrap();
    assert_eq!(cause, LossCause::Released);
    assert!(lease.is_lost());
    assert!(lease.remaining().is_zero());
}

#[tokio::test]
async fn reports_a_loss_when_work_ends_after_the_lease() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(ms(150)).renew(false).await.unwrap();
    let error = guard.run(async { thread::sleep(ms(300)) }).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
}

#[tokio::test]
async fn wakes_a_waiter_in_memory_after_min_hold() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(SOON * 4).min_hold(ms(300)).await.unwrap();
    let waiter = tokio::spawn(locks.lock("k").wait(SOON).into_future());
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn f06_releases_all_late_grants() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::builder().timeout(ms(200)).connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;

    proxy.to_server(Mode::Hold);
    let requests = (0..5).map(|n| locks.lock(format!("late:{n}")).into_future());
    for outcome in join_all(requests).await {
        assert!(outcome.unwrap_err().is_unavailable());
    }
    let log = server.log();
    proxy.to_server(Mode::Pass);
    for n in 0..5 {
        log.wait_for(|entry| is_grant(entry, &format!("late:{n}")), SOON).await;
    }

    let mut redis = server.connection().await;
    eventually("all late locks are released", SOON, async || count_keys(&mut redis).await == 0)
        .await;
}
