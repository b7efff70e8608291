//! Durations as they arrive at the server.

use std::time::Duration;

use harness::{CommandLog, Entry};
use lock_runtime::{LockError, LockManager, redis_lock};

use crate::support::{SOON, setup};

/// Locks a key with a ttl as written and, if asked to, until it has been renewed.
///
/// A short lease may end before that on a machine that is busy: then it is tried again.
macro_rules! held_for {
    ($name:ident, $ttl:expr) => {
        async fn $name(locks: &LockManager, key: &str, log: &CommandLog, renewed: bool) {
            #[redis_lock(key = "<key>", ttl = $ttl, wait = "5s", manager = locks)]
            async fn locked(
                locks: &LockManager,
                key: &str,
                body: impl Future,
            ) -> Result<(), LockError> {
                body.await;
                Ok(())
            }
            let renewal = || async {
                if renewed {
                    log.wait_for(|entry| is_renewal(entry, key), SOON).await;
                }
            };
            while locked(locks, key, renewal()).await.is_err() {}
        }
    };
}

held_for!(for_30_s, "30s");
held_for!(for_90_s, "1m30s");
held_for!(for_24_h, "24h");
held_for!(for_500_ms, "500ms");
held_for!(for_1500_ms, "1500ms");
held_for!(for_an_expression, Duration::from_micros(1_234_400));

fn is_renewal(entry: &Entry, key: &str) -> bool {
    entry.is("PEXPIRE") && entry.has(key)
}

/// The lifetimes that acquires and renewals of `key` have asked for.
async fn lifetimes(log: &CommandLog, key: &str) -> Vec<String> {
    log.settle().await;
    let commands = log.commands_on(key);
    let acquires = commands.iter().filter(|entry| entry.is("SET"));
    let acquires = acquires.map(|entry| {
        assert_eq!(entry.args[3], "PX");
        entry.args[4].clone()
    });
    let renewals = commands.iter().filter(|entry| is_renewal(entry, key));
    acquires.chain(renewals.map(|entry| entry.args[2].clone())).collect()
}

#[tokio::test]
async fn c093_seconds_minutes_and_hours_become_milliseconds() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    for_30_s(&locks, "30s", &log, false).await;
    assert_eq!(lifetimes(&log, "30s").await, ["30000"]);
    for_90_s(&locks, "1m30s", &log, false).await;
    assert_eq!(lifetimes(&log, "1m30s").await, ["90000"]);
    for_24_h(&locks, "24h", &log, false).await;
    assert_eq!(lifetimes(&log, "24h").await, ["86400000"]);
    let guard = locks.lock("api").ttl(Duration::from_secs(30)).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(lifetimes(&log, "api").await, ["30000"]);
    let guard = locks.lock("default").await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(lifetimes(&log, "default").await, ["30000"]);
}

#[tokio::test]
async fn c093_renewals_use_the_same_lifetime() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    let guard = locks.lock("k").ttl(Duration::from_secs(2)).await.unwrap();
    log.wait_for(|entry| is_renewal(entry, "k"), SOON).await;
    guard.release().await.unwrap();
    assert_eq!(lifetimes(&log, "k").await, ["2000", "2000"]);
}

#[tokio::test]
async fn c094_parts_of_a_second_are_kept_and_smaller_ones_rounded_up() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    tokio::join!(
        for_500_ms(&locks, "a", &log, true),
        for_1500_ms(&locks, "b", &log, true),
        for_an_expression(&locks, "c", &log, true),
    );
    for (key, lifetime) in [("a", "500"), ("b", "1500"), ("c", "1235")] {
        let lifetimes = lifetimes(&log, key).await;
        assert!(lifetimes.len() >= 2, "{lifetimes:?}");
        assert!(lifetimes.iter().all(|other| other == lifetime), "{lifetimes:?}");
    }
}
