//! Leaks in this process and on the server. Each test runs in a process of its own.

use std::future::IntoFuture as _;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use harness::{Proxy, Server, eventually};
use lock_runtime::{LockError, LockManager, redis_lock};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::support::{
    FENCE_KEY, SOON, count_keys, in_own_process, ms, occupy, process_status, setup,
};

#[redis_lock(key = "order:<id>", ttl = "1s", manager = locks)]
async fn pay(locks: &LockManager, id: usize, how: usize) -> Result<(), LockError> {
    match how {
        1 => panic!("on purpose"),
        2 => sleep(SOON).await,
        _ => {}
    }
    Ok(())
}

/// Returns the private memory of this process in kilobytes, its threads, and the tasks of this
/// runtime.
pub(crate) fn size() -> (u64, u64, usize) {
    let figure = |name| process_status(name).unwrap_or_default();
    (figure("RssAnon:"), figure("Threads:"), Handle::current().metrics().num_alive_tasks())
}

/// Fails if the process has grown by more than `kilobytes`, or by a thread or a task.
pub(crate) async fn assert_no_growth(before: (u64, u64, usize), kilobytes: u64) {
    let mut after = size();
    for _ in 0..100 {
        if after.1 <= before.1 && after.2 <= before.2 {
            break;
        }
        sleep(ms(20)).await;
        after = size();
    }
    assert!(after.0 <= before.0 + kilobytes, "kilobytes: {before:?}, then {after:?}");
    assert!(after.1 <= before.1, "threads: {before:?}, then {after:?}");
    assert!(after.2 <= before.2, "tasks: {before:?}, then {after:?}");
}

/// Calls with distinct ids, 50 at a time.
pub(crate) async fn pay_many(locks: &LockManager, ids: std::ops::Range<usize>) {
    let calls = stream::iter(ids).for_each_concurrent(50, |id| async move {
        pay(locks, id, 0).await.unwrap();
    });
    calls.await;
}

#[tokio::test]
async fn leaks_nothing_per_key() {
    if !in_own_process("single::growth::leaks_nothing_per_key").await {
        return;
    }
    let (server, _, mut redis) = setup().await;
    let locks = LockManager::builder().timeout(SOON).connect(server.url()).await.unwrap();
    pay_many(&locks, 0..2_000).await;
    let before = size();
    pay_many(&locks, 2_000..42_000).await;
    assert_no_growth(before, 1_000).await; // 25 bytes per key
    assert_eq!(count_keys(&mut redis).await, 0);
}

#[tokio::test]
async fn leaks_nothing_per_key_in_memory() {
    if !in_own_process("single::growth::leaks_nothing_per_key_in_memory").await {
        return;
    }
    let locks = LockManager::in_memory();
    pay_many(&locks, 0..2_000).await;
    let before = size();
    pay_many(&locks, 2_000..32_000).await;
    assert_no_growth(before, 1_000).await;
    // Also for locks that are never released.
    for round in 0..4 {
        for id in 0..2_000 {
            let lock = locks.lock(format!("kept:{round}:{id}")).min_hold(ms(50));
            lock.await.unwrap().release().await.unwrap();
        }
        sleep(ms(60)).await;
    }
    pay_many(&locks, 32_000..34_000).await;
    assert_no_growth(before, 1_500).await;
}

#[tokio::test]
async fn acquires_again_after_a_failed_release() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::builder().timeout(ms(200)).connect(proxy.url()).await.unwrap();
    for away in [ms(300), ms(900)] {
        let guard = locks.lock("k").ttl(ms(500)).await.unwrap();
        proxy.refuse();
        proxy.cut();
        assert!(guard.release().await.unwrap_err().is_unavailable());
        sleep(away).await;
        proxy.accept();
        let again = tokio::spawn(locks.lock("k").wait(ms(1_500)).into_future());
        again.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn leaks_nothing_after_waits_and_expired_leases() {
    const WAITS: usize = 4_000;
    if !in_own_process("single::growth::leaks_nothing_after_waits_and_expired_leases").await {
        return;
    }
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    let mut redis = server.connection().await;
    for n in 0..50 {
        occupy(&mut redis, &format!("held:{n}"), Duration::from_secs(600)).await;
    }
    let wait = async |n: usize| {
        let key = format!("held:{}", n % 50);
        assert!(locks.lock(key).wait(ms(5)).await.unwrap_err().is_busy());
    };
    let waits = |range: std::ops::Range<usize>| stream::iter(range).for_each_concurrent(50, wait);
    pay_many(&locks, 0..500).await;
    waits(0..500).await;
    let before = size();
    waits(0..WAITS).await;
    assert_no_growth(before, 1_000).await;

    let leases =
        stream::iter(0..100).map(|n| locks.lock(format!("k{n}")).ttl(ms(500)).into_future());
    let guards: Vec<_> = leases.buffered(100).map(Result::unwrap).collect().await;
    proxy.refuse();
    proxy.cut();
    for guard in guards {
        timeout(SOON, guard.lost()).await.expect("the lease expires while disconnected");
    }
    sleep(ms(600)).await; // until the attempted releases give up
    proxy.accept();
    pay_many(&locks, 0..100).await;
    assert_no_growth(before, 1_500).await;
    let log = server.log();
    sleep(ms(600)).await; // long enough for a renewal
    log.settle().await;
    let old = |entry: &harness::Entry| entry.args.iter().any(|arg| arg.starts_with('k'));
    assert_eq!(log.count(old), 0, "an expired lease was renewed");
    assert_eq!(count_keys(&mut redis).await, 50);
}

#[tokio::test]
async fn leaves_no_keys_after_calls_that_fail() {
    const CALLS: usize = 2_000;
    if !in_own_process("single::growth::leaves_no_keys_after_calls_that_fail").await {
        return;
    }
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let calls = stream::iter(0..CALLS).for_each_concurrent(50, |id| {
        let locks = locks.clone();
        async move {
            let how = if id % 10 == 0 { 1 + id / 10 % 2 } else { 0 };
            let call = tokio::spawn(async move { pay(&locks, id, how).await });
            let abort = call.abort_handle();
            let outcome = timeout(if how == 2 { ms(100) } else { SOON }, call).await;
            abort.abort();
            assert_eq!(outcome.is_ok_and(|joined| joined.is_ok()), how == 0, "{id}");
        }
    });
    calls.await;
    eventually("all keys are gone", ms(2_000), async || count_keys(&mut redis).await == 0).await;
    log.settle().await;
    let mut made = 0;
    for entry in log.entries() {
        if entry.is("SET") && entry.args[1] != FENCE_KEY {
            made += 1;
            assert!(entry.from_script(), "{entry:?}");
            assert_eq!(entry.args[3..], ["PX", "1000"]);
        }
        assert!(!entry.is("PERSIST") && !entry.is("HSET"), "{entry:?}");
    }
    assert!(made > CALLS * 9 / 10 && made <= CALLS, "{made}");
}
