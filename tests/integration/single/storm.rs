//! Calls that are dropped all the time, beside others on the same connection.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use harness::{Mode, Proxy, Server, eventually};
use lock_runtime::{Fence, LockError, LockManager};
use redis::AsyncTypedCommands as _;
use tokio::time::timeout;

use crate::support::{SOON, count_keys, ms, warm_up};

/// Held by somebody else, whose name is the number.
const BUSY: u64 = 8;

/// An answer is about the key that was asked for, however many of those before it nobody awaits.
#[tokio::test]
async fn f17_no_answer_goes_to_another_call() {
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
    let (fences, answered) = (Mutex::default(), AtomicUsize::new(0));
    join_all((0..TASKS).map(async |task| {
        for call in 0..CALLS {
            let id = task * CALLS + call;
            let patience = ms((task * 29 + call * 37) % 31);
            if timeout(patience, ask(&locks, id, &fences)).await.is_ok() {
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }))
    .await;

    let answered = answered.into_inner();
    assert!((50..1_500).contains(&answered), "{answered} of 1,600 calls were not dropped");
    eventually("what was taken is free", SOON, async || count_keys(&mut redis).await == 8).await;
    for n in 0..BUSY {
        assert_eq!(redis.get(format!("busy:{n}")).await.unwrap(), Some(n.to_string()));
    }
}

/// Asks for a key of its own, and gives it back, or for one of those that are held.
async fn ask(locks: &LockManager, id: u64, fences: &Mutex<HashSet<Fence>>) {
    if id.is_multiple_of(2) {
        let guard = locks.lock(format!("free:{id}")).await.unwrap();
        assert!(fences.lock().unwrap().insert(guard.fence()), "a grant was answered twice");
        guard.release().await.unwrap(); // an error if the lock was not its own
    } else {
        let name = (id / 2 % BUSY).to_string();
        let error = locks.lock(format!("busy:{name}")).await.unwrap_err();
        let LockError::Busy { holder, .. } = &error else { panic!("{error}") };
        assert_eq!(holder.as_deref(), Some(&*name));
    }
}
