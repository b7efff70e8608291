//! One manager used from several runtimes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use futures_util::future::join_all;
use harness::{Server, eventually};
use lock_runtime::{LockError, LockManager, redis_lock};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::support::{SOON, clients, ms, pttl};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A connection to inspect the server, on a runtime that outlives the others.
struct Watch {
    runtime: Runtime,
    server: Server,
}

impl Watch {
    fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(Server::start());
        Self { runtime, server }
    }

    /// Waits until there are at most `limit` connections.
    fn wait_for_at_most(&self, limit: usize) {
        self.runtime.block_on(async {
            let mut redis = self.server.connection().await;
            eventually(&format!("at most {limit} connections"), SOON, async || {
                clients(&mut redis).await.len() <= limit
            })
            .await;
        });
    }
}

#[test]
fn works_on_one_runtime_after_the_other() {
    static LOCKS: OnceLock<LockManager> = OnceLock::new();
    #[redis_lock(key = "k", ttl = "2s", manager = LOCKS.get().unwrap())]
    async fn locked() -> Result<(), LockError> {
        sleep(ms(1)).await;
        Ok(())
    }

    let watch = Watch::start();
    // The runtime that has connected is dropped first.
    let locks = runtime().block_on(LockManager::connect(watch.server.url())).unwrap();
    let _ = LOCKS.set(locks);
    for _ in 0..20 {
        runtime().block_on(async {
            locked().await.unwrap();
            locked().await.unwrap();
        });
    }
    watch.wait_for_at_most(1); // the connection of the manager's thread
}

#[test]
fn shares_a_connection_within_a_runtime() {
    let watch = Watch::start();
    watch.runtime.block_on(async {
        let locks = LockManager::connect(watch.server.url()).await.unwrap();
        let mut redis = watch.server.connection().await;
        let mut received = async || -> u32 {
            let info: String = redis::cmd("INFO").query_async(&mut redis).await.unwrap();
            let mut lines = info.lines();
            let count = lines.find_map(|line| line.strip_prefix("total_connections_received:"));
            count.unwrap().parse().unwrap()
        };
        let before = received().await;
        for _ in 0..5 {
            let calls = (0..20).map(|n| {
                let request = locks.lock(format!("k{n}"));
                async { request.await.unwrap().release().await.unwrap() }
            });
            join_all(calls).await;
        }
        // One more for the manager's thread.
        assert!(received().await <= before + 1);
    });
}

#[test]
fn excludes_runtimes_from_each_other() {
    static LOCKS: OnceLock<LockManager> = OnceLock::new();
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    #[redis_lock(key = "k", ttl = "2s", wait = "20s", manager = LOCKS.get().unwrap())]
    async fn locked() -> Result<(), LockError> {
        assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0);
        sleep(ms(2)).await;
        assert_eq!(INSIDE.fetch_sub(1, Ordering::SeqCst), 1);
        Ok(())
    }

    let watch = Watch::start();
    let _ = LOCKS.set(watch.runtime.block_on(LockManager::connect(watch.server.url())).unwrap());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                runtime().block_on(async {
                    for _ in 0..10 {
                        locked().await.unwrap();
                    }
                });
            });
        }
        scope.spawn(|| {
            // Four workers, the manager's thread and the runtime that has connected.
            watch.wait_for_at_most(6);
        });
    });
    watch.wait_for_at_most(2);
}

#[test]
fn renews_a_guard_that_outlives_its_runtime() {
    let watch = Watch::start();
    let (first, second) = (runtime(), runtime());
    let locks = first.block_on(LockManager::connect(watch.server.url())).unwrap();
    let guard = first.block_on(locks.lock("k").ttl(ms(1_000)).into_future()).unwrap();
    drop(first);
    // Renewed meanwhile, although no runtime of the test is running.
    thread::sleep(ms(1_500));
    assert!(!guard.is_lost());
    second.block_on(async {
        guard.run(sleep(ms(10))).await.unwrap();
        assert!(locks.lock("k").await.unwrap_err().is_busy());
        guard.release().await.unwrap();
        locks.lock("k").await.unwrap().release().await.unwrap();
    });
    let guard = second.block_on(locks.lock("k").into_future()).unwrap();
    drop(second);
    drop(guard);
    watch.runtime.block_on(async {
        locks.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
    });
}

#[test]
fn leaves_nothing_of_calls_that_end_with_their_runtime() {
    let watch = Watch::start();
    let locks = watch.runtime.block_on(LockManager::connect(watch.server.url())).unwrap();
    for n in 0..10 {
        let held = watch.runtime.block_on(locks.lock("k").wait(SOON).into_future()).unwrap();
        let other = runtime();
        other.block_on(async {
            let waiter = tokio::spawn(locks.lock("k").wait_forever().into_future());
            let asker = tokio::spawn(locks.lock("free").into_future());
            let _ = timeout(ms(n), waiter).await;
            drop(asker);
        });
        drop(other);
        watch.runtime.block_on(held.release()).unwrap();
    }
    watch.runtime.block_on(async {
        let mut redis = watch.server.connection().await;
        for key in ["k", "free"] {
            eventually("the lock is free", SOON, async || pttl(&mut redis, key).await == -2).await;
        }
    });
    watch.wait_for_at_most(2);
}

#[test]
fn serves_other_runtimes_while_one_blocks() {
    let watch = Watch::start();
    let blocked = runtime();
    let locks = blocked.block_on(LockManager::connect(watch.server.url())).unwrap();
    let guard = blocked.block_on(locks.lock("k").ttl(ms(1_000)).into_future()).unwrap();
    let other = thread::spawn({
        let locks = locks.clone();
        move || {
            runtime().block_on(async {
                for n in 0..20 {
                    locks.lock(format!("other:{n}")).await.unwrap().release().await.unwrap();
                    sleep(ms(20)).await;
                }
            });
        }
    });
    blocked.block_on(async { thread::sleep(ms(1_500)) });
    blocked.block_on(guard.release()).unwrap();
    other.join().unwrap();
}
