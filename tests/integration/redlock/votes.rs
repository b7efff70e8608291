//! Votes, and the release of unused ones.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use harness::Mode;
use lock_runtime::LockError;
use redis::AsyncTypedCommands as _;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::support::{AT_ONCE, FENCE_KEY, Group, SOON, ms, occupy, pttl, wait_until_absent};

#[tokio::test]
async fn sets_one_token_with_expiry_on_all_servers() {
    let mut group = Group::start(5).await;
    let locks = group.connect().await;
    let guard = locks.lock("k").ttl(ms(5_000)).await.unwrap();
    group.wait_until_held_on("k", 5).await;
    let mut tokens = group.values("k").await;
    tokens.dedup();
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    for redis in &mut group.redis {
        let left = pttl(redis, "k").await;
        assert!((3_000..=5_000).contains(&left), "{left}");
    }
    assert!(locks.lock("k").await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    group.wait_until_empty(AT_ONCE).await;
}

#[tokio::test]
async fn is_busy_when_another_program_has_a_majority() {
    let mut group = Group::start(5).await;
    let locks = group.connect().await;
    for redis in &mut group.redis[..2] {
        occupy(redis, "k", SOON * 6).await;
    }
    let guard = locks.lock("k").await.unwrap();
    guard.release().await.unwrap();
    group.wait_until_held_on("k", 2).await;

    occupy(&mut group.redis[4], "k", SOON * 12).await;
    let LockError::Busy { holder, retry_after, .. } = locks.lock("k").await.unwrap_err() else {
        panic!("the lock is not busy");
    };
    assert_eq!(holder.as_deref(), Some("another program"));
    assert!(retry_after.is_some_and(|after| after > SOON * 11), "{retry_after:?}");
    group.wait_until_held_on("k", 3).await;
}

#[tokio::test]
async fn reports_a_foreign_key_on_a_majority() {
    let mut group = Group::start(3).await;
    let locks = group.connect().await;
    group.redis[0].lpush("k", "x").await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
    group.redis[1].lpush("k", "x").await.unwrap();
    let error = locks.lock("k").await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
    assert!(error.to_string().contains("a list"), "{error}");
    wait_until_absent(&mut group.redis[2], "k", AT_ONCE).await;
}

#[tokio::test]
async fn releases_the_late_vote_of_a_granted_lock() {
    let mut group = Group::start(3).await;
    let locks = group.connect_through_proxies().await;
    group.proxies[0].to_server(Mode::Hold);
    locks.lock("k").ttl(SOON * 6).await.unwrap().release().await.unwrap();
    group.proxies[0].to_server(Mode::Pass);
    locks.shutdown().await;
    group.wait_until_empty(AT_ONCE).await;
    let log = group.servers[0].log();
    log.settle().await;
    group.wait_until_empty(AT_ONCE).await;
}

#[tokio::test]
async fn releases_the_late_vote_of_a_lost_round() {
    let mut group = Group::start(3).await;
    let locks = group.connect_through_proxies().await;
    for redis in &mut group.redis[1..] {
        occupy(redis, "k", SOON * 6).await;
    }
    let log = group.servers[0].log();
    group.proxies[0].to_server(Mode::Hold);
    assert!(locks.lock("k").ttl(SOON * 6).await.unwrap_err().is_busy());
    group.proxies[0].to_server(Mode::Pass);
    log.wait_for(|entry| entry.is("SET") && entry.has("k"), SOON).await;
    wait_until_absent(&mut group.redis[0], "k", AT_ONCE).await;
}

#[tokio::test]
async fn ignores_a_vote_lost_before_its_confirmation() {
    let mut group = Group::start(3).await;
    let locks = group.connect_through_proxies().await;
    group.servers[2].kill();
    locks.lock("other").await.unwrap().release().await.unwrap();
    group.proxies[0].to_client(Mode::Hold);
    let log = group.servers[0].log();
    let (granted, ()) = tokio::join!(locks.lock("k").ttl(SOON * 6), async {
        log.wait_for(|entry| entry.is("SET") && entry.has("k"), SOON).await;
        group.redis[0].del("k").await.unwrap();
        group.proxies[0].to_client(Mode::Pass);
    });
    let error = granted.unwrap_err();
    assert!(error.to_string().contains("the vote was lost again"), "{error}");
    for redis in &mut group.redis[..2] {
        wait_until_absent(redis, "k", AT_ONCE).await;
    }
}

#[tokio::test]
async fn stores_each_fence_on_a_majority() {
    let mut group = Group::start(3).await;
    let locks = group.connect().await;
    group.redis[0].set(FENCE_KEY, 1_u64 << 52).await.unwrap();
    for _ in 0..5 {
        let guard = locks.lock("k").ttl(SOON * 6).wait(SOON).await.unwrap();
        let mut counters = Vec::new();
        for redis in &mut group.redis {
            counters.push(redis.get_int(FENCE_KEY).await.unwrap().unwrap_or_default());
        }
        let fence = isize::try_from(guard.fence().get()).unwrap();
        let remember = counters.iter().filter(|last| **last >= fence).count();
        assert!(remember >= 2, "{counters:?} after {}", guard.fence());
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn releases_a_vote_without_a_reply_at_once() {
    let mut group = Group::start(3).await;
    let locks = group.connect_through_proxies().await;
    for redis in &mut group.redis[1..] {
        occupy(redis, "lost", SOON * 6).await;
    }
    let log = group.servers[0].log();
    group.proxies[0].lose_reply_to("\r\nlost\r\n");
    let began = Instant::now();
    assert!(locks.lock("lost").ttl(SOON * 6).await.unwrap_err().is_busy());
    log.wait_for(|entry| entry.is("DEL") && entry.has("lost"), SOON).await;
    assert!(began.elapsed() < ms(900), "replies time out after a second: {:?}", began.elapsed());
}

#[tokio::test]
async fn leaves_nothing_of_dropped_calls() {
    let mut group = Group::start(5).await;
    let locks = group.connect_through_proxies().await;
    for proxy in &group.proxies[3..] {
        proxy.to_client(Mode::Delay(ms(5)));
    }
    for round in 0..60 {
        let key = format!("k:{}", round % 7);
        let request = locks.lock(key).ttl(SOON * 6).wait(SOON);
        let _ = timeout(Duration::from_micros(150 * round), request).await;
    }
    let waits = async {
        let _guard = locks.lock("waits").ttl(SOON * 6).await.unwrap();
        let requests = (1..20).map(|n| timeout(ms(n * 15), locks.lock("waits").wait(SOON)));
        join_all(requests).await
    };
    assert!(waits.await.iter().all(Result::is_err));
    locks.shutdown().await;
    group.wait_until_empty(AT_ONCE).await;
}

#[tokio::test]
async fn leaves_nothing_of_an_acquire_dropped_at_any_poll() {
    let mut group = Group::start(3).await;
    let locks = group.connect().await;
    for polls in 0..40 {
        let request = async { locks.lock("k").ttl(SOON * 6).await.map(drop) };
        let limit = async {
            for _ in 0..polls {
                yield_now().await;
            }
        };
        tokio::select! { biased; _ = request => {} () = limit => {} }
    }
    locks.shutdown().await;
    group.wait_until_empty(AT_ONCE).await;
}

#[tokio::test]
async fn grows_fences_whichever_servers_vote() {
    let mut group = Group::start(5).await;
    let (a, b) = (group.connect().await, group.connect().await);
    let mut last = None;
    for round in 0..60 {
        if round % 6 == 0 {
            group.servers[round / 6 % 5].restart().await;
        }
        let locks = if round % 3 == 0 { &a } else { &b };
        let guard = locks.lock("k").wait(SOON).await.unwrap();
        let fence = Some(guard.fence());
        assert!(fence > last, "{fence:?} after {last:?}");
        last = fence;
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn keeps_the_key_for_min_hold_on_all_servers() {
    let mut group = Group::start(3).await;
    let locks = group.connect().await;
    let guard = locks.lock("k").ttl(SOON).min_hold(ms(3_000)).await.unwrap();
    guard.release().await.unwrap();
    group.wait_until_held_on("k", 3).await;
    for redis in &mut group.redis {
        let left = pttl(redis, "k").await;
        assert!((1..=3_000).contains(&left), "{left}");
    }
    assert!(locks.lock("k").await.unwrap_err().is_busy());
    group.wait_until_empty(SOON).await;
}
