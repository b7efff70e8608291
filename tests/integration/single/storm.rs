//! Calls that are dropped all the time, among others on the same connection.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use harness::{Mode, Proxy, Server, eventually};
use lock_runtime::{Fence, LockError, LockManager};
use redis::AsyncTypedCommands as _;
use tokio::time::timeout;

use crate::support::{SOON, count_keys, ms, warm_up};

/// The number of keys that another holder has; its name is the number of the key.
const BUSY: u64 = 8;

/// Each reply reaches its own request, however many earlier calls were dropped.
#[tokio::test]
async fn f17_matches_each_reply_to_its_request() {
    const TASKS: u64 = 16;
    const CALLS: u64 = 100;
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let mut redis = server.connection().await;
    for n in 0..BUSY {
        redis.set(format!("busy:{n}"), n).await.unwrap();
    }
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;
    proxy.both_ways(Mode::Delay(ms(2)));
    let (fences, ended) = (Mutex::default(), AtomicUsize::new(0));
    join_all((0..TASKS).map(async |task| {
        for number in 0..CALLS {
            let id = task * CALLS + number;
            let limit = ms((task * 29 + number * 37) % 31);
            if timeout(limit, call(&locks, id, &fences)).await.is_ok() {
                ended.fetch_add(1, Ordering::Relaxed);
            }
        }
    }))
    .await;

    let ended = ended.into_inner();
    assert!((50..1_500).contains(&ended), "{ended} of 1,600 calls were not dropped");
    eventually("all acquired locks are free", SOON, async || count_keys(&mut redis).await == 8)
        .await;
    for n in 0..BUSY {
        assert_eq!(redis.get(format!("busy:{n}")).await.unwrap(), Some(n.to_string()));
    }
}

/// Acquires a key of its own and releases it, or requests one of the held keys.
async fn call(locks: &LockManager, id: u64, fences: &Mutex<HashSet<Fence>>) {
    if id.is_multiple_of(2) {
        let guard = locks.lock(format!("free:{id}")).await.unwrap();
        assert!(fences.lock().unwrap().insert(guard.fence()), "a grant was returned twice");
        guard.release().await.unwrap(); // fails if the lock belongs to another call
    } else {
        let name = (id / 2 % BUSY).to_string();
        let error = locks.lock(format!("busy:{name}")).await.unwrap_err();
        let LockError::Busy { holder, .. } = &error else { panic!("{error}") };
        assert_eq!(holder.as_deref(), Some(&*name));
    }
}
