//! Networks that fall apart: a holder and the server beside it on one side, everybody else on the other.

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

/// For servers to agree on another master.
const LIMIT: Duration = ms(30_000);

/// A manager whose connections are made from a node, if it is used there first.
async fn connect(node: &Node, builder: Builder, url: String) -> LockManager {
    node.run(move || async move { builder.connect(url).await.unwrap() }).await
}

/// Takes a lock on a node, from where it is renewed.
async fn take(node: &Node, request: LockRequest) -> LockGuard {
    node.run(move || request.into_future()).await.unwrap()
}

/// Takes `k`, however long no server can be used.
async fn granted(locks: &LockManager, ttl: Duration) -> LockGuard {
    let granted = async {
        loop {
            match locks.lock("k").ttl(ttl).wait(SOON * 4).await {
                Ok(guard) => return guard,
                Err(error) => assert!(error.is_unavailable(), "{error}"),
            }
        }
    };
    timeout(LIMIT, granted).await.expect("the lock can be had again")
}

/// Returns shortly before a lease is renewed.
async fn due(guard: &LockGuard, ttl: Duration) {
    let soon = async || guard.remaining() < ttl * 3 / 8;
    eventually("the lease is about to be renewed", LIMIT, soon).await;
}

/// Returns when the servers keep nothing but the counters of fences.
async fn empty(servers: &[Server]) {
    eventually("nothing is left", LIMIT, async || {
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

/// Data that compares fences, and knows all writes in their order: the fence, and whether it was accepted.
#[derive(Default)]
struct Data(Mutex<Vec<(Fence, bool)>>);

impl Data {
    fn write(&self, fence: Fence) -> bool {
        let mut writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_accepted = writes.iter().all(|&(other, accepted)| !accepted || fence >= other);
        writes.push((fence, is_accepted));
        is_accepted
    }

    /// Writes again and again.
    async fn keep_writing(&self, fence: Fence) {
        loop {
            self.write(fence);
            sleep(ms(10)).await;
        }
    }

    /// How often a writer was refused.
    fn refused(&self, fence: Fence) -> usize {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writes.iter().filter(|write| **write == (fence, false)).count()
    }
}
