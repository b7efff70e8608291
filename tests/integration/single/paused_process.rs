//! Holders whose process is paused for a while.

use std::env;
use std::time::Duration;

use harness::{Child, Entry, eventually};
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands as _;
use tokio::time::sleep;

use crate::support::{SOON, is_renewal, ms, setup, spawn_holder, warm_up};

const F19: &str = "single::paused_process::f19_stops_a_body_paused_beyond_its_lease";

#[redis_lock(key = "f19", ttl = "1s", manager = locks)]
async fn walk(locks: &LockManager) -> Result<(), LockError> {
    loop {
        println!("one more step");
        sleep(ms(2)).await;
    }
}

/// When the process continues, everything is late: the body's own timer, the deadline, the renewal.
#[tokio::test]
async fn f19_stops_a_body_paused_beyond_its_lease() {
    if let Ok(url) = env::var("TEST_REDIS") {
        let end = walk(&LockManager::connect(url).await.unwrap()).await;
        println!("the end: {}", end.unwrap_err());
        return;
    }
    let (server, locks, mut redis) = setup().await;
    let child = Child::test(F19, &[("TEST_REDIS", &server.url())]);
    child.line_matching("step", SOON).await;
    child.pause();
    let next = locks.lock("f19").ttl(ms(5_000)).wait(SOON).await.unwrap();
    let token = redis.get("f19").await.unwrap();
    let before = steps(&child);
    sleep(ms(1_000)).await; // twice as long as the lease
    assert_eq!(steps(&child), before);
    child.resume();

    let end = child.line_matching("the end", SOON).await;
    assert!(end.contains("lost"), "{end}");
    assert_eq!(steps(&child), before, "the body continued without the lock");
    next.run(sleep(ms(300))).await.unwrap();
    assert_eq!(redis.get("f19").await.unwrap(), token);
    next.release().await.unwrap();
}

fn steps(child: &Child) -> usize {
    child.lines().iter().filter(|line| line.contains("step")).count()
}

/// Renewals that were due meanwhile are not all made up for, and expired leases are not renewed at
/// all.
#[tokio::test]
async fn f29_sends_few_renewals_after_a_pause() {
    const TASKS: usize = 4;
    let (server, locks, _) = setup().await;
    let log = server.log();
    warm_up(&locks).await;
    let start = |key, ttl: u64| {
        let options = [format!("ttl={ttl}"), "hold=60000".to_owned(), format!("tasks={TASKS}")];
        spawn_holder(&server.url(), key, &options)
    };
    let [slow, quick] = [start("slow:#", 8_000), start("quick:#", 1_000)];
    for holder in [&slow, &quick] {
        let held = async || holder.lines().iter().filter(|line| *line == "held").count() == TASKS;
        eventually("all are held", SOON, held).await;
        holder.pause();
    }
    // A lease of 8 s is renewed after 4.7 to 5.3 s, and ends after 7.5 s.
    sleep(ms(5_500)).await;
    log.settle().await;
    let renewals =
        |key: &str, ttl: &str| log.count(|entry: &Entry| is_renewal(entry, ttl) && entry.has(key));
    let count = || -> Vec<_> {
        let of =
            |n| [renewals(&format!("slow:{n}"), "8000"), renewals(&format!("quick:{n}"), "1000")];
        (0..TASKS).map(of).collect()
    };
    let before = count();
    slow.resume();
    quick.resume();
    sleep(Duration::from_secs(1)).await;
    log.settle().await;
    for ([renewed, ended], [renewed_before, ended_before]) in count().into_iter().zip(before) {
        assert_eq!(renewed_before, 0, "it was renewed before the pause");
        assert!((1..=2).contains(&renewed), "{renewed} renewals");
        assert_eq!(ended, ended_before, "an expired lease was renewed");
    }
    let lost = |holder: &Child| holder.lines().iter().filter(|line| *line == "lost").count();
    assert_eq!((lost(&slow), lost(&quick)), (0, TASKS));
}
