//! What the tests of this folder share.

use std::env;
use std::time::Duration;

use harness::{Child, Server, eventually};
use lock_runtime::LockManager;
use redis::aio::MultiplexedConnection;

pub(crate) use harness::run;

/// For what should happen soon, on a machine that is busy.
pub(crate) const SOON: Duration = Duration::from_secs(5);

const ALONE: &str = "TEST_ALONE";

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A server, a manager that has used it, and a connection to look at it.
pub(crate) async fn setup() -> (Server, LockManager, MultiplexedConnection) {
    let server = Server::start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    warm_up(&locks).await;
    let redis = server.connection().await;
    (server, locks, redis)
}

/// Teaches the server the scripts that take and give back a lock.
pub(crate) async fn warm_up(locks: &LockManager) {
    locks.lock("warm").await.unwrap().release().await.unwrap();
}

/// Writes what a holder in another program would.
pub(crate) async fn occupy(redis: &mut MultiplexedConnection, key: &str, ttl: Duration) {
    let mut set = redis::cmd("SET");
    set.arg(key).arg("another program").arg("NX").arg("PX").arg(millis(ttl));
    set.exec_async(redis).await.unwrap();
}

/// The connections of the server, without the one that asks and those of command logs.
pub(crate) async fn clients(redis: &mut MultiplexedConnection) -> Vec<String> {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    let others = list.lines().filter(|c| !c.contains("cmd=client|list") && !c.contains("flags=O"));
    others.map(str::to_owned).collect()
}

/// What is left of a key's life: -1 without an end, -2 without a key.
pub(crate) async fn pttl(redis: &mut MultiplexedConnection, key: &str) -> i64 {
    redis::cmd("PTTL").arg(key).query_async(redis).await.unwrap()
}

/// Waits until the lock is renewed there, and has longer than `least` to live: only a renewal makes that
/// longer than it was.
pub(crate) async fn renewed(redis: &mut MultiplexedConnection, key: &str, least: i64) {
    let mut before = pttl(redis, key).await;
    eventually("the lock is renewed", SOON * 2, async || {
        let left = pttl(redis, key).await;
        left > std::mem::replace(&mut before, left) && left > least
    })
    .await;
}

pub(crate) fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap()
}

/// Runs the test `name` in a process of its own; true there, and false when it has passed.
///
/// For tests of what all tests of a process share: the installed manager, the subscriber of events,
/// memory, processor time.
pub(crate) async fn alone(name: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let child = Child::test(name, &[(ALONE, "1")]);
    child.line_matching("test result: ok. 1 passed", Duration::from_secs(60)).await;
    false
}

/// A figure in kilobytes or threads from `/proc/self/status`; none where there is no such file.
pub(crate) fn process_status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
