//! Servers that are unreachable.

use std::time::{Duration, Instant};

use harness::{Mode, eventually, run};
use lock_runtime::{LockManager, LossCause};
use tokio::time::{sleep, timeout};

use crate::support::{Group, SOON, ms, warm_up};

const TIMEOUT: Duration = ms(500);
const TTL: Duration = ms(2_000);

#[tokio::test]
async fn works_without_two_of_five_servers() {
    let mut group = Group::start(5).await;
    let locks = group.connect().await;
    group.wait_until_empty(SOON).await;
    let mut last = 0;
    for round in 0..4 {
        let away = [round, round + 1];
        for server in away {
            group.servers[server].kill();
        }
        let guard = locks.lock("k").ttl(TTL).wait(SOON).await.unwrap();
        assert!(guard.fence().get() > last, "{} after {last}", guard.fence());
        last = guard.fence().get();
        guard.run(sleep(TTL)).await.unwrap();
        guard.release().await.unwrap();
        let other = group.connect().await;
        other.lock("k").await.unwrap().release().await.unwrap();
        for server in away {
            group.servers[server].restart().await;
        }
    }
}

#[tokio::test]
async fn names_the_servers_when_a_majority_is_missing() {
    let group = Group::start(5).await;
    let builder = LockManager::builder().timeout(TIMEOUT);
    let locks = builder.clone().connect(group.url()).await.unwrap();
    warm_up(&locks).await;
    for server in &group.servers[2..] {
        server.kill();
    }
    let began = Instant::now();
    let error = locks.lock("k").await.unwrap_err();
    assert!(began.elapsed() < TIMEOUT * 3 + ms(400), "{:?}", began.elapsed());
    assert!(error.is_unavailable(), "{error}");
    let text = error.to_string();
    assert!(text.contains("2 of 5 servers granted it"), "{text}");
    for server in &group.servers[2..] {
        assert!(text.contains(&format!("redis://{}", server.addr())), "{text}");
    }
    assert!(!text.contains(&format!("redis://{}/", group.servers[0].addr())), "{text}");

    let error = builder.connect(group.url()).await.unwrap_err();
    assert!(error.to_string().contains("2 of 5 servers replied"), "{error}");
}

#[tokio::test]
async fn releases_the_votes_of_a_lost_round() {
    let mut group = Group::start(5).await;
    let locks = LockManager::builder().timeout(TIMEOUT).connect(group.url()).await.unwrap();
    warm_up(&locks).await;
    for server in &group.servers[2..] {
        server.pause();
    }
    assert!(locks.lock("k").await.unwrap_err().is_unavailable());
    for server in &group.servers[2..] {
        server.resume();
    }
    group.wait_until_empty(SOON).await;
}

#[tokio::test]
async fn replaces_killed_connections_without_an_error() {
    let mut group = Group::start(3).await;
    let locks = group.connect().await;
    let long = locks.lock("long").ttl(TTL).wait(SOON).await.unwrap();
    let rounds = async {
        for round in 0..8 {
            for redis in &mut group.redis {
                run(redis, "CLIENT KILL TYPE normal").await;
            }
            locks.lock(format!("k{round}")).await.unwrap().release().await.unwrap();
            sleep(ms(400)).await;
        }
    };
    long.run(rounds).await.unwrap();
    long.release().await.unwrap();
    group.wait_until_empty(SOON).await;
}

#[tokio::test]
async fn f88_stays_fast_with_a_silent_server() {
    let group = Group::start(5).await;
    let (locks, other) =
        (group.connect_through_proxies().await, group.connect_through_proxies().await);
    let held = locks.lock("held").ttl(TTL).wait(SOON).await.unwrap();
    group.proxies[2].both_ways(Mode::Lose);
    let (mut acquired, mut released) = (Vec::new(), Vec::new());
    let work = async {
        let began = Instant::now();
        while began.elapsed() < TTL * 2 {
            for locks in [&locks, &other] {
                let began = Instant::now();
                let guard = locks.lock("k").await.unwrap();
                acquired.push(began.elapsed());
                let began = Instant::now();
                guard.release().await.unwrap();
                released.push(began.elapsed());
            }
            sleep(ms(20)).await;
        }
    };
    held.run(work).await.unwrap();
    let began = Instant::now();
    held.release().await.unwrap();
    released.push(began.elapsed());
    for mut times in [acquired, released] {
        times.sort_unstable();
        // A call that waits for the server would take a second.
        assert!(times[times.len() / 2] < ms(100), "{times:?}");
        assert!(times[times.len() * 9 / 10] < ms(500), "{times:?}");
    }
}

#[tokio::test]
async fn f89_ends_a_lease_without_majority_at_its_deadline() {
    let group = Group::start(5).await;
    let locks = group.connect().await;
    let guard = locks.lock("k").ttl(TTL).await.unwrap();
    for server in &group.servers[2..] {
        server.pause();
    }
    let began = Instant::now();
    let lost = timeout(SOON, guard.lost()).await.unwrap();
    let took = began.elapsed();
    assert_eq!(lost, LossCause::Expired);
    assert!(took > TTL / 2 && took < TTL, "{took:?}");
    for server in &group.servers[2..] {
        server.resume();
    }
    drop(guard);
    let free = async || locks.lock("k").ttl(TTL).await.is_ok();
    eventually("the lock is available again", SOON, free).await;
}
