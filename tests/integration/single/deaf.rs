//! Waiters that get no messages: they ask again and again, and are served in order all the same.

use std::time::Instant;

use harness::{Server, run};
use lock_runtime::LockManager;
use tokio::task::JoinSet;
use tracing::Level;

use crate::support::{
    Capture, SOON, count_keys, grants_in_order, in_own_process, ms, wait_for_waiters,
};

/// Eight waiters are served as they came, and one warning says why it takes longer than it could.
async fn serves_as_they_came(server: &Server, url: String, why: &str) {
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

    // Each has to ask before it knows: after 100 ms, and longer in the rear.
    assert!(released.elapsed() < ms(3_000), "{:?}", released.elapsed());
    log.settle().await;
    assert_eq!(grants_in_order(&log, "k").len(), 1 + WAITERS);
    assert_eq!(count_keys(&mut redis).await, 0);
    let warnings = capture.containing("waiters ask again and again");
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert_eq!(warnings[0].level, Level::WARN);
    assert!(warnings[0].message().contains(why), "{warnings:?}");
}

#[tokio::test]
async fn waiters_that_speak_resp2_are_served_as_they_came() {
    if !in_own_process("single::deaf::waiters_that_speak_resp2_are_served_as_they_came").await {
        return;
    }
    let server = Server::start().await;
    let url = format!("{}/?protocol=resp2", server.url());
    serves_as_they_came(&server, url, "RESP2").await;
}

#[tokio::test]
async fn waiters_that_may_not_subscribe_are_served_as_they_came() {
    if !in_own_process("single::deaf::waiters_that_may_not_subscribe_are_served_as_they_came").await
    {
        return;
    }
    let server = Server::start().await;
    let mut redis = server.connection().await;
    run(&mut redis, "ACL SETUSER app on >pass ~* &* +@all -subscribe").await;
    serves_as_they_came(&server, server.url_as("app", "pass"), "subscribe").await;
}
