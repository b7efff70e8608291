//! The keys of a lock on the server.

use std::mem;
use std::time::Duration;

use harness::eventually;
use redis::aio::MultiplexedConnection;
use redis::{AsyncTypedCommands as _, Script};

use super::{SOON, millis};

/// The counter of the fences: the only key that stays, however many locks there have been.
pub(crate) const FENCE_KEY: &str = "lock-runtime:fence";

/// Writes the key as a holder in another program would.
pub(crate) async fn occupy(redis: &mut MultiplexedConnection, key: &str, ttl: Duration) {
    let mut set = redis::cmd("SET");
    set.arg(key).arg("another program").arg("NX").arg("PX").arg(millis(ttl));
    set.exec_async(redis).await.unwrap();
}

/// Returns the remaining life of a key: -1 without an expiry, -2 without a key.
pub(crate) async fn pttl(redis: &mut MultiplexedConnection, key: &str) -> i64 {
    redis::cmd("PTTL").arg(key).query_async(redis).await.unwrap()
}

/// Waits until the lock is renewed on this server and its key has longer than `least` to live.
///
/// The key's remaining life grows only when the lock is renewed.
pub(crate) async fn wait_until_renewed(redis: &mut MultiplexedConnection, key: &str, least: i64) {
    let mut before = pttl(redis, key).await;
    eventually("the lock is renewed", SOON * 2, async || {
        let left = pttl(redis, key).await;
        left > mem::replace(&mut before, left) && left > least
    })
    .await;
}

/// Waits until `key` does not exist.
pub(crate) async fn wait_until_absent(
    redis: &mut MultiplexedConnection,
    key: &str,
    limit: Duration,
) {
    let what = format!("{key} is gone");
    eventually(&what, limit, async || !redis.exists(key).await.unwrap()).await;
}

/// Counts the keys on the server, except two kinds: the counter of the fences, which stays, and the
/// note that clients without a queue were seen, which stays for a minute.
pub(crate) async fn count_keys(redis: &mut MultiplexedConnection) -> usize {
    let script = Script::new(
        "local count = 0
         for _, key in ipairs(redis.call('KEYS', '*')) do
           local note = string.find(key, ':peers$') and redis.call('HLEN', key) == 1
             and redis.call('HEXISTS', key, 'others') == 1 and redis.call('PTTL', key) >= 0
           if key ~= ARGV[1] and not note then count = count + 1 end
         end
         return count",
    );
    script.arg(FENCE_KEY).invoke_async(redis).await.unwrap()
}

/// Waits until this many waiters are queued for `key`.
pub(crate) async fn wait_for_waiters(redis: &mut MultiplexedConnection, key: &str, count: usize) {
    let (what, queue) = (format!("{count} wait for {key}"), format!("{{{key}}}:waiters"));
    eventually(&what, SOON * 4, async || redis.zcard(&queue).await.unwrap() == count).await;
}

/// Returns the tokens of the waiters for `key`, in the order of the queue.
pub(crate) async fn queued_tokens(redis: &mut MultiplexedConnection, key: &str) -> Vec<String> {
    redis.zrange(format!("{{{key}}}:waiters"), 0, -1).await.unwrap()
}
