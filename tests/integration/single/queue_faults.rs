//! Faults of waiters and of the queue itself.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use harness::{Child, Mode, Proxy, Server, eventually, run};
use lock_runtime::{LockError, LockGuard, LockManager, LossCause};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::support::{
    SOON, count_keys, grants_in_order, is_acquire, is_grant, ms, queued_tokens, setup,
    spawn_holder, wait_for_waiters,
};

/// A waiter counts as dead after three polling intervals of a third of this.
const TTL: Duration = ms(3_000);

type Waiting = JoinHandle<Result<LockGuard, LockError>>;

/// Queues for the lock `k`.
async fn wait(locks: &LockManager, redis: &mut MultiplexedConnection) -> Waiting {
    let before = queued_tokens(redis, "k").await.len();
    let waiting = tokio::spawn(locks.lock("k").ttl(TTL).wait(SOON * 2).into_future());
    wait_for_waiters(redis, "k", before + 1).await;
    waiting
}

/// Starts another process that queues for the lock `k`.
async fn wait_elsewhere(server: &Server, redis: &mut MultiplexedConnection) -> Child {
    let before = queued_tokens(redis, "k").await.len();
    let options = [format!("ttl={}", TTL.as_millis()), "wait=20000".to_owned()];
    let other = spawn_holder(&server.url(), "k", &options);
    wait_for_waiters(redis, "k", before + 1).await;
    other
}

fn has_held(other: &Child) -> bool {
    other.lines().iter().any(|line| line == "held")
}

#[tokio::test]
async fn skips_a_killed_waiter() {
    let (server, locks, mut redis) = setup().await;
    let guard = locks.lock("k").await.unwrap();
    let others =
        [wait_elsewhere(&server, &mut redis).await, wait_elsewhere(&server, &mut redis).await];
    let waiting = wait(&locks, &mut redis).await;
    others.iter().for_each(Child::kill);
    let released = Instant::now();
    guard.release().await.unwrap();
    let next = timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
    assert!(released.elapsed() < ms(800), "{:?}", released.elapsed());
    next.release().await.unwrap();
    assert_eq!(count_keys(&mut redis).await, 0);
}

#[tokio::test]
async fn skips_a_paused_waiter_after_three_intervals() {
    let (server, locks, mut redis) = setup().await;
    let guard = locks.lock("k").await.unwrap();
    let other = wait_elsewhere(&server, &mut redis).await;
    let waiting = wait(&locks, &mut redis).await;
    other.pause();
    sleep(3 * ms(1_000) + ms(50)).await;
    let released = Instant::now();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(released.elapsed() < ms(800), "{:?}", released.elapsed());

    // It polls again once it continues, and is next.
    other.resume();
    wait_for_waiters(&mut redis, "k", 1).await;
    assert!(!has_held(&other));
    next.release().await.unwrap();
    other.line_matching("released", SOON).await;
    assert_eq!(count_keys(&mut redis).await, 0);
}

/// The push message arrives long after its lease has expired.
#[tokio::test]
async fn ignores_an_old_push_message_after_a_pause() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let guard = locks.lock("k").await.unwrap();
    let other = wait_elsewhere(&server, &mut redis).await;
    let token = queued_tokens(&mut redis, "k").await.remove(0);
    let waiting = wait(&locks, &mut redis).await;
    other.pause();
    let released = Instant::now();
    guard.release().await.unwrap();
    log.wait_for(|entry| is_grant(entry, "k") && entry.has(&token), SOON).await;

    let next = waiting.await.unwrap().unwrap();
    assert!(released.elapsed() < TTL + ms(400), "{:?}", released.elapsed());
    log.settle().await;
    let requests = || log.count(|entry| is_acquire(entry, "k") && entry.has(&token));
    let before = requests();
    other.resume();
    eventually("it verifies the push message", SOON, async || requests() > before).await;
    next.run(sleep(ms(300))).await.unwrap();
    assert!(!has_held(&other), "two waiters hold the lock");
    next.release().await.unwrap();
    other.line_matching("released", SOON).await;
}

#[tokio::test]
async fn f100_keeps_the_places_of_reconnecting_waiters() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let managers = [
        LockManager::connect(server.url()).await.unwrap(),
        LockManager::connect(server.url()).await.unwrap(),
    ];
    let guard = locks.lock("k").await.unwrap();
    let turns = (0..6).map(|n| {
        let request = managers[n % 2].lock("k").wait(SOON * 2);
        tokio::spawn(async { request.await.unwrap().release().await.unwrap() })
    });
    let turns = join_all(turns);
    wait_for_waiters(&mut redis, "k", 6).await;
    let places = queued_tokens(&mut redis, "k").await;
    for _ in 0..3 {
        run(&mut redis, "CLIENT KILL TYPE pubsub").await;
        let requests =
            |token: &String| log.count(|entry| is_acquire(entry, "k") && entry.has(token));
        let before: Vec<_> = places.iter().map(requests).collect();
        let again =
            async || places.iter().map(requests).zip(&before).all(|(now, before)| now > *before);
        // Sooner than the next regular poll.
        eventually("all have polled again", ms(800), again).await;
        assert_eq!(queued_tokens(&mut redis, "k").await, places);
    }

    let released = Instant::now();
    guard.release().await.unwrap();
    for turn in turns.await {
        turn.unwrap();
    }
    assert!(released.elapsed() < ms(2_000), "{:?}: no waiter was notified", released.elapsed());
    log.settle().await;
    assert_eq!(grants_in_order(&log, "k").len(), 7);
}

#[tokio::test]
async fn f100_polls_after_a_push_message_was_lost() {
    let (server, locks, mut redis) = setup().await;
    let proxy = Proxy::start(server.addr());
    let far = LockManager::connect(proxy.url()).await.unwrap();
    let log = server.log();
    let guard = locks.lock("k").await.unwrap();
    let waiting = wait(&far, &mut redis).await;
    proxy.to_client(Mode::Lose);
    guard.release().await.unwrap();
    log.settle().await;
    assert_eq!(grants_in_order(&log, "k").len(), 2, "the lock was handed over");
    proxy.to_client(Mode::Pass);
    let next = timeout(SOON, waiting).await.expect("the waiter polls again").unwrap().unwrap();
    next.release().await.unwrap();
    log.settle().await;
    assert_eq!(count_keys(&mut redis).await, 0);
}

#[tokio::test]
async fn skips_an_unreachable_waiter_until_it_returns() {
    join_all([Mode::Hold, Mode::Lose].map(async |mode| {
        let (server, locks, mut redis) = setup().await;
        let proxy = Proxy::start(server.addr());
        let far = LockManager::builder().timeout(ms(1_500)).connect(proxy.url()).await.unwrap();
        let guard = locks.lock("k").await.unwrap();
        let cut_off = wait(&far, &mut redis).await;
        let waiting = wait(&locks, &mut redis).await;
        proxy.both_ways(mode);
        sleep(3 * ms(1_000) + ms(50)).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        assert!(released.elapsed() < ms(800), "{mode:?}: {:?}", released.elapsed());

        proxy.both_ways(Mode::Pass);
        next.run(sleep(ms(300))).await.unwrap();
        assert!(!cut_off.is_finished(), "{mode:?}: two waiters hold the lock, or one has given up");
        next.release().await.unwrap();
        cut_off.await.unwrap().unwrap().release().await.unwrap();
        eventually("nothing is left", SOON, async || count_keys(&mut redis).await == 0).await;
    }))
    .await;
}

#[tokio::test]
async fn f40_serves_all_waiters_after_a_flush() {
    let (_server, locks, mut redis) = setup().await;
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    let fences = Mutex::new(vec![guard.fence()]);
    let turns = join_all((0..8).map(async |_| {
        let guard = locks.lock("k").ttl(TTL).wait(SOON * 2).await.unwrap();
        fences.lock().unwrap().push(guard.fence());
        guard.run(sleep(ms(20))).await.unwrap();
        guard.release().await.unwrap();
    }));
    let flush = async {
        wait_for_waiters(&mut redis, "k", 8).await;
        run(&mut redis, "FLUSHALL SYNC").await;
        timeout(ms(1_000), guard.lost()).await.expect("the holder notices the loss")
    };
    let (_, cause) = tokio::join!(turns, flush);

    assert_eq!(cause, LossCause::Taken);
    let fences = fences.into_inner().unwrap();
    assert_eq!(fences.len(), 9);
    assert!(fences.is_sorted_by(|before, after| before < after), "{fences:?}");
    drop(guard);
    locks.shutdown().await;
    assert_eq!(count_keys(&mut redis).await, 0);
}

#[tokio::test]
async fn f48_survives_a_script_flush_at_each_step_of_a_wait() {
    let (_server, locks, mut redis) = setup().await;
    for _ in 0..10 {
        let guard = locks.lock("k").ttl(TTL).await.unwrap();
        run(&mut redis, "SCRIPT FLUSH").await;
        let waiting = wait(&locks, &mut redis).await;
        run(&mut redis, "SCRIPT FLUSH").await;
        let error = locks.lock("k").wait(ms(20)).await.unwrap_err();
        assert!(error.is_busy(), "{error}");
        let dropped = wait(&locks, &mut redis).await;
        run(&mut redis, "SCRIPT FLUSH").await;
        dropped.abort();
        wait_for_waiters(&mut redis, "k", 1).await;
        run(&mut redis, "SCRIPT FLUSH").await;
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        run(&mut redis, "SCRIPT FLUSH").await;
        guard.release().await.unwrap();
        assert_eq!(count_keys(&mut redis).await, 0);
    }
}

/// Also when the next turn belongs to foreign clients.
#[tokio::test]
async fn f42_hands_over_the_lock_of_a_full_server() {
    let (_server, locks, mut redis) = setup().await;
    for command in ["PING now", "HSET {k}:peers since 1"] {
        let guard = locks.lock("k").await.unwrap();
        let waiting = wait(&locks, &mut redis).await;
        run(&mut redis, command).await;
        run(&mut redis, "CONFIG SET maxmemory 1").await;
        let released = guard.release().await;
        run(&mut redis, "CONFIG SET maxmemory 0").await;
        released.unwrap_or_else(|error| panic!("{command}: {error}"));
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}
