//! Independent servers of which some are cut off.

use std::time::{Duration, Instant};

use harness::{Network, Node, Server, redlock_url};
use lock_runtime::{LockManager, LossCause};
use tokio::time::sleep;

use super::{acquire_on, connect, wait_until_due, wait_until_empty};
use crate::support::{SOON, durable, ms, warm_up};

/// Starts five servers: two on one node, and three on nodes of their own.
async fn start(network: &Network) -> (Node, Vec<Server>, String) {
    let site = network.node().await;
    let mut servers = Vec::new();
    for _ in 0..2 {
        servers.push(durable().node(&site).start().await);
    }
    for _ in 0..3 {
        servers.push(durable().node(&network.node().await).start().await);
    }
    let url = redlock_url(servers.iter().map(Server::addr));
    (site, servers, url)
}

#[tokio::test]
async fn f89_stops_a_holder_without_majority_before_the_next_grant() {
    const TTL: Duration = ms(3_000);
    let Some(network) = Network::start().await else { return };
    let (site, servers, url) = start(&network).await;
    let inside = connect(&site, LockManager::builder(), url.clone()).await;
    let outside = LockManager::connect(url).await.unwrap();
    warm_up(&outside).await;

    let older = acquire_on(&site, inside.lock("k").ttl(TTL)).await;
    wait_until_due(&older, TTL).await;
    site.cut();
    let (cut, left) = (Instant::now(), older.remaining());
    let first = async {
        let cause = older.lost().await;
        (cause, cut.elapsed())
    };
    let second = async {
        let younger = outside.lock("k").ttl(TTL).wait(SOON * 2).await.unwrap();
        assert!(older.is_lost(), "two holders, one of them for {:?} more", older.remaining());
        println!("lost in {left:?}, granted to another one after {:?}", cut.elapsed());
        younger
    };
    let ((cause, held), younger) = tokio::join!(first, second);
    assert_eq!(cause, LossCause::Expired);
    assert!(held >= left && held < left + ms(500), "{held:?}, and not {left:?}");
    assert!(younger.fence() > older.fence());
    let minority = inside.lock("other").ttl(TTL).into_future();
    let error = site.run(move || minority).await.unwrap_err();
    assert!(error.to_string().contains("2 of 5 servers granted it"), "{error}");

    site.heal();
    drop(older);
    let fence = younger.fence();
    younger.release().await.unwrap();
    let next = acquire_on(&site, inside.lock("k").ttl(TTL).wait(SOON)).await;
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    drop(next);
    wait_until_empty(&servers).await;
}

#[tokio::test]
async fn f88_stays_fast_with_a_cut_off_server() {
    const TTL: Duration = ms(2_000);
    let Some(network) = Network::start().await else { return };
    let (_, servers, url) = start(&network).await;
    let locks = LockManager::connect(url).await.unwrap();
    warm_up(&locks).await;
    let held = locks.lock("held").ttl(TTL).await.unwrap();
    servers[4].node().cut();
    let mut times = Vec::new();
    let turns = async {
        let began = Instant::now();
        while began.elapsed() < TTL * 2 {
            let turn = Instant::now();
            let guard = locks.lock("k").ttl(TTL).wait(SOON).await.unwrap();
            guard.release().await.unwrap();
            times.push(turn.elapsed());
            sleep(ms(20)).await;
        }
    };
    held.run(turns).await.unwrap();
    held.release().await.unwrap();
    times.sort_unstable();
    // A call that waits for the server would take a second.
    assert!(times[times.len() / 2] < ms(100), "{times:?}");
    servers[4].node().heal();
    wait_until_empty(&servers).await;
}

#[tokio::test]
async fn f89_keeps_a_lease_for_half_its_ttl_without_majority() {
    const TTL: Duration = ms(12_000);
    let Some(network) = Network::start().await else { return };
    let (_, servers, url) = start(&network).await;
    // Connection attempts from just before the end of the cut end within this time.
    let builder = LockManager::builder().timeout(ms(500));
    let locks = builder.connect(&*url).await.unwrap();
    let other = LockManager::connect(url).await.unwrap();
    let guard = locks.lock("k").ttl(TTL).await.unwrap();
    let cut = async {
        // Renewals begin in this time, which would distort the count.
        sleep(TTL / 4).await;
        servers[2..].iter().for_each(|server| server.node().cut());
        sleep(TTL / 2).await;
        let left = guard.remaining();
        servers[2..].iter().for_each(|server| server.node().heal());
        sleep(TTL).await;
        left
    };
    let left = guard.run(cut).await.unwrap();
    assert!(left < TTL / 4, "renewed without a majority: {left:?} left");
    assert!(other.lock("k").ttl(TTL).wait(ms(300)).await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    other.lock("k").ttl(TTL).wait(SOON).await.unwrap().release().await.unwrap();
    wait_until_empty(&servers).await;
}
