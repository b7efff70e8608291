//! A master of sentinels that is cut off and replaced.

use std::time::{Duration, Instant};

use harness::{Network, Node, Sentinels, eventually, run};
use lock_runtime::{LockGuard, LockManager, LossCause};
use redis::AsyncTypedCommands as _;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Data, LIMIT, acquire, acquire_on, connect, wait_until_due, wait_until_empty};
use crate::support::{SOON, ms, wait_until_absent, wait_until_renewed, warm_up};

const TTL: Duration = ms(5_000);

/// Cuts a node off and acquires `k` there, over a connection from before the cut.
async fn acquire_during_cut(node: &Node, url: String) -> (LockManager, LockGuard) {
    let (ready, is_ready) = oneshot::channel();
    let (cut, is_cut) = oneshot::channel();
    let work = node.run(move || async move {
        let locks = LockManager::connect(url).await.unwrap();
        warm_up(&locks).await;
        ready.send(()).unwrap();
        is_cut.await.unwrap();
        let guard = locks.lock("k").ttl(TTL).await.unwrap();
        (locks, guard)
    });
    let cut = async {
        is_ready.await.unwrap();
        node.cut();
        cut.send(()).unwrap();
    };
    tokio::join!(work, cut).0
}

/// The replicas have not received the lock, which the old master grants and renews while it is cut
/// off.
#[tokio::test]
async fn f79_orders_holders_on_both_sides_of_a_cut_by_fence() {
    let Some(network) = Network::start().await else { return };
    let sentinels = Sentinels::start_in(&network, "lock").await;
    let old = sentinels.master().await;
    let locks = LockManager::connect(sentinels.url()).await.unwrap();
    let data = Data::default();

    let (beside, older) = acquire_during_cut(old.node(), sentinels.url()).await;
    let first = older.run(data.keep_writing(older.fence()));
    let second = async {
        let younger = acquire(&locks, TTL).await;
        assert!(data.write(younger.fence()), "{} after {}", younger.fence(), older.fence());
        let went_on = async || data.refused(older.fence()) > 10;
        younger.run(eventually("the older holder still writes", SOON, went_on)).await.unwrap();
        old.node().heal();
        (younger, Instant::now())
    };
    let (stopped, (younger, healed)) = tokio::join!(first, second);
    println!("the older holder stopped {:?} after the end of the cut", healed.elapsed());
    assert!(stopped.unwrap_err().is_lost());
    assert!(data.write(younger.fence()) && !data.write(older.fence()));

    drop(older);
    let fence = younger.fence();
    younger.release().await.unwrap();
    sentinels.wait_until_healthy().await;
    wait_until_empty(sentinels.servers()).await;
    let next = acquire_on(old.node(), beside.lock("k").ttl(TTL).wait(SOON)).await;
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    drop(next);
    wait_until_empty(sentinels.servers()).await;
}

/// The old master renews the lease, but no replica acknowledges that. An acquire that requires all
/// replicas has to wait until the old master has become one of them.
#[tokio::test]
async fn f79_grants_one_holder_over_a_cut_with_replicas() {
    let Some(network) = Network::start().await else { return };
    let sentinels = Sentinels::start_in(&network, "lock").await;
    let old = sentinels.master().await;
    let all = LockManager::builder().replicas(2);
    let beside = connect(old.node(), all.clone(), sentinels.url()).await;
    let careful = all.connect(sentinels.url()).await.unwrap();
    drop(careful.lock("warm").wait(SOON).await.unwrap());
    let locks = LockManager::connect(sentinels.url()).await.unwrap();

    let older = acquire_on(old.node(), beside.lock("k").ttl(TTL).wait(SOON)).await;
    wait_until_due(&older, TTL).await;
    old.node().cut();
    let younger = acquire(&locks, TTL).await;
    assert!(older.is_lost(), "two holders, one of them for {:?} more", older.remaining());
    assert_eq!(older.lost().await, LossCause::Expired);
    assert!(younger.fence() > older.fence());
    let error = careful.lock("other").wait(ms(2_000)).await.unwrap_err();
    assert!(error.to_string().contains("of 2 replicas have acknowledged it"), "{error}");

    old.node().heal();
    drop(older);
    let fence = younger.fence();
    younger.release().await.unwrap();
    sentinels.wait_until_healthy().await;
    let next = acquire(&careful, TTL).await;
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    next.release().await.unwrap();
    wait_until_empty(sentinels.servers()).await;
}

/// Without its replicas, the old master accepts no writes, so the older holder stops.
#[tokio::test]
async fn f44_f79_renews_nothing_on_a_master_that_requires_replicas() {
    let Some(network) = Network::start().await else { return };
    let sentinels = Sentinels::start_in(&network, "lock").await;
    for server in sentinels.servers() {
        let mut redis = server.connection().await;
        run(&mut redis, "CONFIG SET min-replicas-to-write 1").await;
        run(&mut redis, "CONFIG SET min-replicas-max-lag 2").await;
    }
    let old = sentinels.master().await;
    let beside = connect(old.node(), LockManager::builder(), sentinels.url()).await;
    let guard = acquire_on(old.node(), beside.lock("k").ttl(TTL).wait(SOON)).await;
    old.node().cut();
    let cause =
        timeout(TTL * 2, guard.lost()).await.expect("the holder stops while the master is cut off");
    assert_eq!(cause, LossCause::Expired);
}

/// Checks that a holder on the side of the next master keeps its lock there.
async fn assert_follows(cut: impl Fn(&Node)) {
    const TTL: Duration = ms(10_000);
    let Some(network) = Network::start().await else { return };
    let sentinels = Sentinels::start_in(&network, "lock").await;
    let old = sentinels.master().await;
    let locks = LockManager::connect(sentinels.url()).await.unwrap();
    let idle = LockManager::connect(sentinels.url()).await.unwrap();
    let guard = locks.lock("k").ttl(TTL).await.unwrap();
    old.wait_for_replicas(2).await;

    cut(old.node());
    let began = Instant::now();
    sentinels.wait_until_replaced(old.port()).await;
    let switched = Instant::now();
    let mut master = sentinels.master().await.connection().await;
    eventually("the next master gets requests", SOON, async || {
        let _other = locks.lock("other").ttl(TTL).wait(SOON).await.unwrap();
        master.exists("other").await.unwrap()
    })
    .await;
    println!("followed {:?} after the failover of {:?}", switched.elapsed(), switched - began);
    let first = idle.lock("first").ttl(TTL).wait(SOON).await.unwrap();
    assert!(master.exists("first").await.unwrap(), "the old master got the request");
    first.release().await.unwrap();
    wait_until_renewed(&mut master, "k", 9_000).await;
    assert!(!guard.is_lost());
    let fence = guard.fence();
    guard.release().await.unwrap();
    let next = locks.lock("k").ttl(TTL).await.unwrap();
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    next.release().await.unwrap();

    old.node().heal();
    sentinels.wait_until_healthy().await;
    wait_until_absent(&mut old.connection().await, "k", LIMIT).await;
    wait_until_empty(sentinels.servers()).await;
}

#[tokio::test]
async fn f80_keeps_a_lease_when_its_master_is_cut_off() {
    assert_follows(Node::cut).await;
}

/// The holder still reaches the old master, which would go on to renew leases and to grant locks.
#[tokio::test]
async fn f79_f80_leaves_a_master_cut_off_from_the_other_servers() {
    assert_follows(Node::cut_from_nodes).await;
}
