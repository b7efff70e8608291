//! Waiters without push messages, which poll and are still served in order.

use std::time::Instant;

use harness::{Server, run};
use lock_runtime::LockManager;
use tokio::task::JoinSet;
use tracing::Level;

use crate::support::{
    Capture, SOON, count_keys, grants_in_order, in_own_process, ms, wait_for_waiters,
};

/// Checks that eight waiters are served in order of arrival, and that one warning gives the reason
/// for the delay.
async fn assert_served_in_order(server: &Server, url: String, why: &str) {
    const WAITERS: usize = 8;
    let capture = Capture::install();
    let locks = LockManager::connect(url).await.unwrap();
    let (log, mut redis) = (server.log(), server.connection().await);
    let guard = locks.lock("k").await.unwrap();
    let turns: JoinSet<()> = (0..WAITERS)
        .map(|_| {
            let request = locks.lock("k").wait(SOON * 2);
            async { request.await.unwrap().release().await.unwrap() }
        })
        .collect();
    wait_for_waiters(&mut redis, "k", WAITERS).await;
    let released = Instant::now();
    guard.release().await.unwrap();
    turns.join_all().await;

    // Each waiter has to poll: after 100 ms, and less often farther back.
    assert!(released.elapsed() < ms(3_000), "{:?}", released.elapsed());
    log.settle().await;
    assert_eq!(grants_in_order(&log, "k").len(), 1 + WAITERS);
    assert_eq!(count_keys(&mut redis).await, 0);
    let warnings = capture.containing("waiters poll, because push messages do not arrive");
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert_eq!(warnings[0].level, Level::WARN);
    assert!(warnings[0].message().contains(why), "{warnings:?}");
}

#[tokio::test]
async fn serves_waiters_with_resp2_in_order() {
    if !in_own_process("single::polling::serves_waiters_with_resp2_in_order").await {
        return;
    }
    let server = Server::start().await;
    let url = format!("{}/?protocol=resp2", server.url());
    assert_served_in_order(&server, url, "RESP2").await;
}

#[tokio::test]
async fn serves_waiters_without_subscribe_permission_in_order() {
    if !in_own_process("single::polling::serves_waiters_without_subscribe_permission_in_order")
        .await
    {
        return;
    }
    let server = Server::start().await;
    let mut redis = server.connection().await;
    run(&mut redis, "ACL SETUSER app on >pass ~* &* +@all -subscribe").await;
    assert_served_in_order(&server, server.url_as("app", "pass"), "subscribe").await;
}
