//! Long queues, and waiters that give up at the moment of their turn.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use harness::eventually;
use lock_runtime::LockManager;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use crate::support::{SOON, count_keys, ms, setup, wait_for_waiters, wait_until_absent};

#[tokio::test]
async fn serves_ten_thousand_waiters() {
    const WAITERS: usize = 10_000;
    let (server, _, mut redis) = setup().await;
    let locks = LockManager::builder().timeout(SOON * 4).connect(server.url()).await.unwrap();
    let guard = locks.lock("k").await.unwrap();
    let turns: JoinSet<()> = (0..WAITERS)
        .map(|_| {
            let request = locks.lock("k").wait(SOON * 36);
            async { request.await.unwrap().release().await.unwrap() }
        })
        .collect();
    wait_for_waiters(&mut redis, "k", WAITERS).await;
    guard.release().await.unwrap();
    assert_eq!(turns.join_all().await.len(), WAITERS);
    assert_eq!(count_keys(&mut redis).await, 0);
}

/// How a waiter gives up.
#[derive(Debug, Clone, Copy)]
enum GiveUp {
    WhenItsTimeIsOver,
    WhenItIsDropped,
}

/// Waits until `at`, to within a few microseconds.
async fn until(at: Instant) {
    sleep(at.saturating_duration_since(Instant::now()).saturating_sub(ms(2))).await;
    while Instant::now() < at {
        yield_now().await;
    }
}

/// Releases a lock while its first waiter gives up, `after` its request and so at about the same
/// time. Returns the time from the later of both events to the grant to the second waiter, and
/// whether the first waiter was granted the lock.
async fn race(locks: &LockManager, key: &str, how: GiveUp, after: Duration) -> (Duration, bool) {
    let guard = locks.lock(key).wait(SOON).await.unwrap();
    let began = Instant::now();
    let release = async {
        until(began + ms(10)).await;
        guard.release().await.unwrap();
        Instant::now()
    };
    let first = async {
        let outcome = match how {
            GiveUp::WhenItsTimeIsOver => locks.lock(key).wait(after).await,
            GiveUp::WhenItIsDropped => tokio::select! {
                biased;
                outcome = locks.lock(key).wait(SOON).into_future() => outcome,
                () = until(began + after) => return (Instant::now(), false),
            },
        };
        let granted = outcome.is_ok();
        match outcome {
            Ok(guard) => guard.release().await.unwrap(),
            Err(error) => assert!(error.is_busy(), "{error}"),
        }
        (Instant::now(), granted)
    };
    let second = async {
        let guard = locks.lock(key).wait(SOON).await.unwrap();
        let granted = Instant::now();
        guard.release().await.unwrap();
        granted
    };
    let (released, (gave_up, had_it), granted) = tokio::join!(release, first, second);
    (granted.saturating_duration_since(released.max(gave_up)), had_it)
}

async fn races(how: GiveUp) {
    const KEYS: u64 = 50;
    const ROUNDS: u64 = 100;
    let (_server, locks, mut redis) = setup().await;
    drop(locks.lock("k").await.unwrap()); // released by the manager's thread, which connects for it
    wait_until_absent(&mut redis, "k", SOON).await;
    let races = join_all((0..KEYS).map(async |n| {
        let key = format!("k{n}");
        let mut outcomes = Vec::new();
        for round in 0..ROUNDS {
            // From 3 ms before the release to 3 ms after it, shuffled.
            let after = ms(7) + Duration::from_micros((n * ROUNDS + round) * 7_919 % 6_000);
            outcomes.push(race(&locks, &key, how, after).await);
        }
        outcomes
    }));
    let (mut idle, had_it): (Vec<_>, Vec<_>) = races.await.concat().into_iter().unzip();
    idle.sort_unstable();

    let had_it = had_it.into_iter().filter(|had_it| *had_it).count();
    assert!((1..idle.len()).contains(&had_it), "{had_it} of the first have had it");
    // No second waiter had to wait for its next poll, which comes after a second.
    assert!(idle[idle.len() / 2] < ms(100), "{:?}", idle[idle.len() / 2]);
    assert!(*idle.last().unwrap() < ms(900), "{:?}", idle.last());
    eventually("nothing is left", SOON, async || count_keys(&mut redis).await == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frees_the_lock_of_a_waiter_that_times_out_at_its_turn() {
    races(GiveUp::WhenItsTimeIsOver).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frees_the_lock_of_a_waiter_dropped_at_its_turn() {
    races(GiveUp::WhenItIsDropped).await;
}
