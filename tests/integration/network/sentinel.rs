//! A master that sentinels watch is cut off, and another one named.

use std::time::{Duration, Instant};

use harness::{Network, Node, Sentinels, eventually, run};
use lock_runtime::{LockGuard, LockManager, LossCause};
use redis::AsyncTypedCommands as _;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Data, LIMIT, connect, due, empty, granted, take};
use crate::support::{SOON, ms, wait_until_absent, wait_until_renewed, warm_up};

const TTL: Duration = ms(5_000);

/// Cuts a node off, and takes `k` there on a connection that was made before.
async fn take_alone(node: &Node, url: String) -> (LockManager, LockGuard) {
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

/// The replicas have never heard of the lock that the old master grants, and renews as long as it is alone.
#[tokio::test]
async fn f79_fences_order_the_holders_on_both_sides_of_a_cut() {
    let Some(network) = Network::start().await else { return };
    let sentinels = Sentinels::start_in(&network, "lock").await;
    let old = sentinels.master().await;
    let locks = LockManager::connect(sentinels.url()).await.unwrap();
    let data = Data::default();

    let (beside, older) = take_alone(old.node(), sentinels.url()).await;
    let first = older.run(data.keep_writing(older.fence()));
    let second = async {
        let younger = granted(&locks, TTL).await;
        assert!(data.write(younger.fence()), "{} after {}", younger.fence(), older.fence());
        let went_on = async || data.refused(older.fence()) > 10;
        younger.run(eventually("the older one writes on", SOON, went_on)).await.unwrap();
        old.node().heal();
        (younger, Instant::now())
    };
    let (stopped, (younger, healed)) = tokio::join!(first, second);
    println!("the older one is told {:?} after the cut was healed", healed.elapsed());
    assert!(stopped.unwrap_err().is_lost());
    assert!(data.write(younger.fence()) && !data.write(older.fence()));

    drop(older);
    let fence = younger.fence();
    younger.release().await.unwrap();
    sentinels.wait_until_healthy().await;
    empty(sentinels.servers()).await;
    let next = take(old.node(), beside.lock("k").ttl(TTL).wait(SOON)).await;
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    drop(next);
    empty(sentinels.servers()).await;
}

/// The old master renews the lease, and no replica acknowledges that. Who asks for all replicas has to wait
/// until the old master is one of them.
#[tokio::test]
async fn f79_with_replicas_nobody_holds_a_lock_twice_over_a_cut() {
    let Some(network) = Network::start().await else { return };
    let sentinels = Sentinels::start_in(&network, "lock").await;
    let old = sentinels.master().await;
    let all = LockManager::builder().replicas(2);
    let beside = connect(old.node(), all.clone(), sentinels.url()).await;
    let careful = all.connect(sentinels.url()).await.unwrap();
    drop(careful.lock("warm").wait(SOON).await.unwrap());
    let locks = LockManager::connect(sentinels.url()).await.unwrap();

    let older = take(old.node(), beside.lock("k").ttl(TTL).wait(SOON)).await;
    due(&older, TTL).await;
    old.node().cut();
    let younger = granted(&locks, TTL).await;
    assert!(older.is_lost(), "there are two holders, one for {:?} more", older.remaining());
    assert_eq!(older.lost().await, LossCause::Expired);
    assert!(younger.fence() > older.fence());
    let error = careful.lock("other").wait(ms(2_000)).await.unwrap_err();
    assert!(error.to_string().contains("of 2 replicas have acknowledged it"), "{error}");

    old.node().heal();
    drop(older);
    let fence = younger.fence();
    younger.release().await.unwrap();
    sentinels.wait_until_healthy().await;
    let next = granted(&careful, TTL).await;
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    next.release().await.unwrap();
    empty(sentinels.servers()).await;
}

/// Without its replicas it takes no writes, so there is an end to what the first test shows.
#[tokio::test]
async fn f44_f79_a_master_that_wants_replicas_renews_nothing_without_them() {
    let Some(network) = Network::start().await else { return };
    let sentinels = Sentinels::start_in(&network, "lock").await;
    for server in sentinels.servers() {
        let mut redis = server.connection().await;
        run(&mut redis, "CONFIG SET min-replicas-to-write 1").await;
        run(&mut redis, "CONFIG SET min-replicas-max-lag 2").await;
    }
    let old = sentinels.master().await;
    let beside = connect(old.node(), LockManager::builder(), sentinels.url()).await;
    let guard = take(old.node(), beside.lock("k").ttl(TTL).wait(SOON)).await;
    old.node().cut();
    let cause = timeout(TTL * 2, guard.lost()).await.expect("it stops while the master is alone");
    assert_eq!(cause, LossCause::Expired);
}

/// A holder on the side of the next master goes on with it.
async fn follows(cut: impl Fn(&Node)) {
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
    eventually("the next master is asked", SOON, async || {
        let _other = locks.lock("other").ttl(TTL).wait(SOON).await.unwrap();
        master.exists("other").await.unwrap()
    })
    .await;
    println!("followed {:?} after the failover of {:?}", switched.elapsed(), switched - began);
    let first = idle.lock("first").ttl(TTL).wait(SOON).await.unwrap();
    assert!(master.exists("first").await.unwrap(), "the old master was asked");
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
    empty(sentinels.servers()).await;
}

#[tokio::test]
async fn f80_a_lease_outlives_a_master_that_is_cut_off() {
    follows(Node::cut).await;
}

/// The holder reaches the old master as well, which would go on to renew the lease, and to grant locks.
#[tokio::test]
async fn f79_f80_a_master_that_is_cut_off_from_the_others_is_left() {
    follows(Node::cut_from_nodes).await;
}
