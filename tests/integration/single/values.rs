//! Values in a key: their notation, and the slot of the key in a cluster.

use harness::{Entry, Server};
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;

use crate::support::{is_acquire, setup};

#[redis_lock(key = "number:<id>", ttl = "5s", manager = locks)]
async fn of_number(
    locks: &LockManager,
    id: u32,
    redis: &mut MultiplexedConnection,
) -> Result<Vec<String>, LockError> {
    Ok(redis.keys("number:*").await.unwrap())
}

#[redis_lock(key = "text:<id>", ttl = "5s", manager = locks)]
async fn of_text(
    locks: &LockManager,
    id: &str,
    redis: &mut MultiplexedConnection,
) -> Result<Vec<String>, LockError> {
    Ok(redis.keys("text:*").await.unwrap())
}

/// Different texts are different keys, even if they mean the same; a type with one notation per
/// value makes them equal.
#[tokio::test]
async fn f64_writes_values_as_their_types_do() {
    let (_server, locks, mut redis) = setup().await;
    for id in ["1", "01", "+1"] {
        let keys = of_number(&locks, id.parse().unwrap(), &mut redis).await.unwrap();
        assert_eq!(keys, ["number:1"], "{id}");
    }
    for id in ["1", "01", "+1", "1 ", "a", "A", "\u{e9}", "e\u{301}"] {
        let keys = of_text(&locks, id, &mut redis).await.unwrap();
        assert_eq!(keys, [format!("text:{id}")]);
    }
}

/// A script may use keys of one slot only. The counter of the fences does not belong to one lock.
#[tokio::test]
async fn f65_keeps_all_keys_of_a_lock_in_one_slot() {
    let (server, locks, mut redis) = setup().await;
    let cluster = Server::builder().config("cluster-enabled yes").start().await;
    let mut cluster = cluster.connection().await;
    let log = server.log();
    for id in ["42", "{a}b", "{}", "}{", "a}b"] {
        of_text(&locks, id, &mut redis).await.unwrap();
    }
    let odd = ["order:{}", "a}b", "a{}b{c}d", "}{"];
    for key in ["order:42", "{order}:42", "order:{a}b", "order:{a}c", "{order:42}", "ü"]
        .into_iter()
        .chain(odd)
    {
        locks.lock(key).await.unwrap().release().await.unwrap();
    }
    log.settle().await;
    let entries = log.entries();
    let acquires = |entry: &&Entry| entry.args.get(3).is_some_and(|key| is_acquire(entry, key));
    let requests: Vec<_> = entries.iter().filter(acquires).collect();
    assert_eq!(requests.len(), 15);
    for entry in requests {
        let mut slots = Vec::new();
        for key in &entry.args[3..6] {
            let mut slot = redis::cmd("CLUSTER");
            slot.arg("KEYSLOT").arg(key);
            slots.push(slot.query_async::<u16>(&mut cluster).await.unwrap());
        }
        assert!(slots.iter().all(|slot| *slot == slots[0]), "{:?}: {slots:?}", &entry.args[3..6]);
    }
}
