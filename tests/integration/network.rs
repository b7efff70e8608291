//! Network partitions: a holder and a server on one side, all other nodes on the other side.

mod cluster;
mod redlock;
mod sentinel;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use harness::{Node, Server, eventually};
use lock_runtime::{Builder, Fence, LockGuard, LockManager, LockRequest};
use redis::AsyncTypedCommands as _;
use tokio::time::{sleep, timeout};

use crate::support::{FENCE_KEY, SOON, ms};

/// The limit for an election of another master.
const LIMIT: Duration = ms(30_000);

/// Connects a manager on a node; its connections come from there.
async fn connect(node: &Node, builder: Builder, url: String) -> LockManager {
    node.run(move || async move { builder.connect(url).await.unwrap() }).await
}

/// Acquires a lock on a node, which is also renewed from there.
async fn acquire_on(node: &Node, request: LockRequest) -> LockGuard {
    node.run(move || request.into_future()).await.unwrap()
}

/// Acquires `k`, retrying while no server is available.
async fn acquire(locks: &LockManager, ttl: Duration) -> LockGuard {
    let granted = async {
        loop {
            match locks.lock("k").ttl(ttl).wait(SOON * 4).await {
                Ok(guard) => return guard,
                Err(error) => assert!(error.is_unavailable(), "{error}"),
            }
        }
    };
    timeout(LIMIT, granted).await.expect("the lock is available again")
}

/// Waits until shortly before a lease is renewed.
async fn wait_until_due(guard: &LockGuard, ttl: Duration) {
    let soon = async || guard.remaining() < ttl * 3 / 8;
    eventually("the lease is about to be renewed", LIMIT, soon).await;
}

/// Waits until the servers have no keys but the counters of fences.
async fn wait_until_empty(servers: &[Server]) {
    eventually("no keys are left", LIMIT, async || {
        for server in servers {
            let keys = server.connection().await.keys("*").await;
            if !keys.is_ok_and(|keys| keys.iter().all(|key| key.starts_with(FENCE_KEY))) {
                return false;
            }
        }
        true
    })
    .await;
}

/// Data that compares fences. It records all writes in order: the fence, and whether it was
/// accepted.
#[derive(Default)]
struct Data(Mutex<Vec<(Fence, bool)>>);

impl Data {
    fn write(&self, fence: Fence) -> bool {
        let mut writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_accepted = writes.iter().all(|&(other, accepted)| !accepted || fence >= other);
        writes.push((fence, is_accepted));
        is_accepted
    }

    /// Writes until it is dropped.
    async fn keep_writing(&self, fence: Fence) {
        loop {
            self.write(fence);
            sleep(ms(10)).await;
        }
    }

    /// Returns how many writes of a holder were refused.
    fn refused(&self, fence: Fence) -> usize {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writes.iter().filter(|write| **write == (fence, false)).count()
    }
}
