//! Long holds: blocked threads, `max_hold`, the ttl of the key.

use std::future::pending;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager, LossCause, redis_lock};
use tokio::time::{sleep, timeout};

use crate::support::{SOON, is_grant, is_renewal, ms, pttl, setup, tokens, wait_until_absent};

static BLOCKING: AtomicBool = AtomicBool::new(false);

/// Blocks its thread for longer than two ttls.
#[redis_lock(key = "blocked:<id>", ttl = "1s", manager = manager)]
async fn block(manager: LockManager, id: u64, blocking: &AtomicBool) -> Result<(), LockError> {
    blocking.store(true, Ordering::SeqCst);
    std::thread::sleep(ms(2_200));
    blocking.store(false, Ordering::SeqCst);
    Ok(())
}

#[redis_lock(key = "blocked:<id>", ttl = "1s", wait = "20s", manager = manager)]
async fn follow(manager: LockManager, id: u64, blocking: &AtomicBool) -> Result<(), LockError> {
    assert!(!blocking.load(Ordering::SeqCst), "two bodies run");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f27_keeps_the_lock_while_the_body_blocks_its_thread() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    let call = tokio::spawn(block(locks.clone(), 71, &BLOCKING));
    log.wait_for(|entry| is_grant(entry, "blocked:71"), SOON).await;
    let next = tokio::spawn(follow(locks, 71, &BLOCKING));

    call.await.unwrap().unwrap();
    next.await.unwrap().unwrap();
    log.settle().await;
    let token = &tokens(&log, "blocked:71")[0];
    assert!(log.count(|entry| is_renewal(entry, "1000") && entry.has(token)) >= 2);
}

/// Renewals run on their own thread, so even the only thread of a runtime may be blocked.
#[tokio::test(flavor = "current_thread")]
async fn f27_keeps_the_lock_while_the_body_blocks_the_only_thread() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    block(locks, 72, &AtomicBool::new(false)).await.unwrap();
    log.settle().await;
    let token = &tokens(&log, "blocked:72")[0];
    assert!(log.count(|entry| is_renewal(entry, "1000") && entry.has(token)) >= 2);
}

#[tokio::test]
async fn f28_stops_a_stuck_body_at_max_hold() {
    #[redis_lock(key = "stuck-body", ttl = "1s", max_hold = "1500ms", manager = manager)]
    async fn stuck(manager: &LockManager) -> Result<(), LockError> {
        pending().await
    }

    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let start = Instant::now();
    let end = timeout(SOON, stuck(&locks)).await.expect("the hold ends");
    let held = start.elapsed();

    assert!(matches!(end, Err(LockError::Lost { cause: LossCause::MaxHold, .. })), "{end:?}");
    assert!((ms(1_500)..ms(2_200)).contains(&held), "{held:?}");
    wait_until_absent(&mut redis, "stuck-body", ms(1_000)).await;
    sleep(ms(1_000)).await;
    log.settle().await;
    let since = log.wait_for(|entry| is_grant(entry, "stuck-body"), SOON).await.at;
    let entries = log.entries();
    let renewals: Vec<_> = entries.iter().filter(|entry| is_renewal(entry, "1000")).collect();
    assert!(!renewals.is_empty());
    assert!(renewals.iter().all(|renewal| renewal.at < since + ms(1_500)), "{renewals:#?}");
}

#[tokio::test]
async fn never_exceeds_the_ttl() {
    #[redis_lock(key = "bounded-ttl", ttl = "1s", manager = manager)]
    async fn work(manager: &LockManager, time: Duration) -> Result<(), LockError> {
        sleep(time).await;
        Ok(())
    }

    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let call = tokio::spawn(async move { work(&locks, ms(4_500)).await });
    while !call.is_finished() {
        let left = pttl(&mut redis, "bounded-ttl").await;
        assert!(left <= 1_000, "PTTL is {left}");
        sleep(ms(10)).await;
    }
    call.await.unwrap().unwrap();
    log.settle().await;
    let renewals: Vec<_> =
        log.commands_on("bounded-ttl").into_iter().filter(|entry| entry.is("PEXPIRE")).collect();
    assert!(renewals.len() >= 5, "{renewals:#?}");
    assert!(renewals.iter().all(|renewal| renewal.args[2] == "1000"), "{renewals:#?}");
}

/// Nothing can release it, so only `max_hold` ends the hold while the process lives.
#[tokio::test]
async fn f16_ends_a_leaked_guard_at_max_hold() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let bounded = locks.lock("bounded").ttl(ms(1_000)).max_hold(ms(2_500)).await.unwrap();
    let unbounded = locks.lock("unbounded").ttl(ms(1_000)).await.unwrap();
    let lease = bounded.lease();
    mem::forget((bounded, unbounded));

    let cause = timeout(SOON, lease.lost()).await.expect("the hold ends");
    assert_eq!(cause, LossCause::MaxHold);
    wait_until_absent(&mut redis, "bounded", ms(1_000 + 500)).await;
    locks.lock("bounded").await.unwrap().release().await.unwrap();
    log.settle().await;
    for key in ["bounded", "unbounded"] {
        assert!(log.count(|entry| entry.is("PEXPIRE") && entry.has(key)) >= 2, "{key}");
    }
    assert!(locks.lock("unbounded").await.unwrap_err().is_busy());
}
