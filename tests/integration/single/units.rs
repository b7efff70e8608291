//! Durations in the requests to the server.

use std::time::Duration;

use harness::{CommandLog, Entry};
use lock_runtime::{LockError, LockManager, redis_lock};

use crate::support::{SOON, setup};

/// Locks a key with the ttl as written and, if requested, holds it until a renewal.
///
/// On a busy machine, a short lease may end before that; then the call is repeated.
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

/// Returns the ttls in the acquires and renewals of `key`.
async fn ttls(log: &CommandLog, key: &str) -> Vec<String> {
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
async fn sends_seconds_minutes_and_hours_in_milliseconds() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    for_30_s(&locks, "30s", &log, false).await;
    assert_eq!(ttls(&log, "30s").await, ["30000"]);
    for_90_s(&locks, "1m30s", &log, false).await;
    assert_eq!(ttls(&log, "1m30s").await, ["90000"]);
    for_24_h(&locks, "24h", &log, false).await;
    assert_eq!(ttls(&log, "24h").await, ["86400000"]);
    let guard = locks.lock("api").ttl(Duration::from_secs(30)).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(ttls(&log, "api").await, ["30000"]);
    let guard = locks.lock("default").await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(ttls(&log, "default").await, ["30000"]);
}

#[tokio::test]
async fn sends_the_same_ttl_with_renewals() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    let guard = locks.lock("k").ttl(Duration::from_secs(2)).await.unwrap();
    log.wait_for(|entry| is_renewal(entry, "k"), SOON).await;
    guard.release().await.unwrap();
    assert_eq!(ttls(&log, "k").await, ["2000", "2000"]);
}

#[tokio::test]
async fn rounds_up_parts_of_a_millisecond() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    tokio::join!(
        for_500_ms(&locks, "a", &log, true),
        for_1500_ms(&locks, "b", &log, true),
        for_an_expression(&locks, "c", &log, true),
    );
    for (key, lifetime) in [("a", "500"), ("b", "1500"), ("c", "1235")] {
        let ttls = ttls(&log, key).await;
        assert!(ttls.len() >= 2, "{ttls:?}");
        assert!(ttls.iter().all(|other| other == lifetime), "{ttls:?}");
    }
}
