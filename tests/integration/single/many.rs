//! Many locks at once: a thousand renewed leases, five thousand dropped guards.

use std::time::Duration;

use futures_util::future::{join_all, select_all};
use harness::{Server, eventually};
use lock_runtime::{LockGuard, LockManager};
use tokio::runtime::Handle;

use crate::support::count_keys;

const TTL: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f103_renews_a_thousand_leases_without_a_task_each() {
    let server = Server::start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    drop(locks.lock("first").ttl(TTL).await.unwrap());
    let tasks = Handle::current().metrics().num_alive_tasks();

    let requests = (0..1_000).map(|n| locks.lock(format!("lease:{n}")).ttl(TTL).into_future());
    let guards: Vec<_> = join_all(requests).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks);

    let log = server.log();
    let lost = select_all(guards.iter().map(|guard| Box::pin(guard.lost())));
    let outcome = tokio::time::timeout(TTL * 5, lost).await.map(|(cause, ..)| cause);
    assert!(outcome.is_err(), "a lease was lost: {outcome:?}");

    // Five ttls, each renewed once in its last third or a little earlier.
    log.settle().await;
    let renewals = log.count(|entry| entry.is("PEXPIRE"));
    assert!((5_000..10_000).contains(&renewals), "{renewals} renewals");
    for released in join_all(guards.into_iter().map(LockGuard::release)).await {
        released.unwrap();
    }
}

#[tokio::test]
async fn releases_five_thousand_guards_dropped_at_once() {
    let server = Server::start().await;
    let locks = LockManager::builder().timeout(TTL * 10).connect(server.url()).await.unwrap();
    let requests = (0..5_000).map(|n| locks.lock(format!("drop:{n}")).into_future());
    let guards: Vec<_> = join_all(requests).await.into_iter().map(Result::unwrap).collect();

    drop(guards);

    let mut redis = server.connection().await;
    let none = async || count_keys(&mut redis).await == 0;
    eventually("no key is left", Duration::from_secs(10), none).await;
    locks.shutdown().await;
}
