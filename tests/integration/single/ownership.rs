//! Ownership: tokens, and locks of other holders.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harness::Entry;
use lock_runtime::{LockError, LockManager, LossCause, redis_lock};
use redis::AsyncTypedCommands as _;
use tokio::time::sleep;

use crate::support::{
    FENCE_KEY, SOON, is_grant, is_renewal, is_script, ms, pttl, setup, spawn_holder,
    wait_until_absent,
};

#[tokio::test]
async fn f62_leaves_a_foreign_lock_alone_on_release() {
    let (server, a, mut redis) = setup().await;
    let b = LockManager::connect(server.url()).await.unwrap();

    let stale = a.lock("stale-key").ttl(ms(200)).renew(false).await.unwrap();
    wait_until_absent(&mut redis, "stale-key", SOON).await;
    let began = Instant::now();
    let guard = b.lock("stale-key").ttl(ms(5_000)).renew(false).await.unwrap();
    let token = redis.get("stale-key").await.unwrap();
    sleep(ms(150)).await;
    let released = stale.release().await;
    a.shutdown().await; // releases in the background are done, too

    assert!(matches!(released, Err(LockError::Lost { .. })), "{released:?}");
    assert_eq!(redis.get("stale-key").await.unwrap(), token);
    let left = pttl(&mut redis, "stale-key").await;
    assert!((1..=4_850).contains(&left), "{left} ms left {:?} after the grant", began.elapsed());
    guard.release().await.unwrap();
}

/// This body cannot be stopped, because it never awaits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaves_a_foreign_lock_alone_at_the_end_of_a_call() {
    #[redis_lock(key = "blocked-key", ttl = "200ms", renew = false, manager = manager)]
    async fn block(manager: &LockManager) -> Result<(), LockError> {
        std::thread::sleep(ms(400));
        Ok(())
    }

    let (server, a, mut redis) = setup().await;
    let b = LockManager::connect(server.url()).await.unwrap();
    let call = tokio::spawn({
        let a = a.clone();
        async move { block(&a).await }
    });
    while !redis.exists("blocked-key").await.unwrap() {}
    let guard = b.lock("blocked-key").ttl(ms(5_000)).wait(SOON).await.unwrap();
    let token = redis.get("blocked-key").await.unwrap();
    let end = call.await.unwrap();
    a.shutdown().await;

    assert!(matches!(end, Err(LockError::Lost { .. })), "{end:?}");
    assert_eq!(redis.get("blocked-key").await.unwrap(), token);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn draws_128_random_bits_per_acquire() {
    const LIMIT: Duration = Duration::from_secs(40);
    let (server, _, _) = setup().await;
    let log = server.log();
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + ms(500);
    let options = ["tasks=8".into(), "rounds=1250".into(), format!("at={}", start.as_millis())];
    let holders = ["random-token:a:#", "random-token:b:#"]
        .map(|key| spawn_holder(&server.url(), key, &options));
    for holder in &holders {
        assert!(holder.exited(LIMIT).await.success());
        assert_eq!(holder.lines().iter().filter(|line| *line == "released").count(), 10_000);
    }
    log.settle().await;

    let entries = log.entries();
    let locked = |entry: &&Entry| entry.is("SET") && entry.args[1] != FENCE_KEY;
    let parts = entries.iter().filter(locked).map(|set| set.args[2].split_once('-').unwrap());
    let (processes, tokens): (HashSet<&str>, HashSet<u128>) =
        parts.map(|(process, bits)| (process, u128::from_str_radix(bits, 16).unwrap())).unzip();
    assert_eq!(processes.len(), 2, "{processes:?}");
    assert_eq!(tokens.len(), 20_000, "tokens are repeated");
    for bit in 0..128 {
        let ones = tokens.iter().filter(|token| *token >> bit & 1 == 1).count();
        // Ten standard deviations around one half.
        assert!((9_300..10_700).contains(&ones), "bit {bit} is set in {ones} of 20,000 tokens");
    }
}

/// A generator copied by a fork would draw the same tokens twice.
#[tokio::test]
async fn f67_draws_different_tokens_in_each_process() {
    const PROCESSES: usize = 20;
    const ROUNDS: usize = 100;
    let (server, _, _) = setup().await;
    let log = server.log();
    let options = [format!("rounds={ROUNDS}")];
    let holders =
        (0..PROCESSES).map(|n| spawn_holder(&server.url(), &format!("f67:{n}"), &options));
    for holder in holders.collect::<Vec<_>>() {
        assert!(holder.exited(SOON * 6).await.success());
    }
    log.settle().await;
    let entries = log.entries();
    let grants = entries.iter().filter(|entry| entry.is("SET") && entry.args[1].starts_with("f67"));
    let (processes, bits): (HashSet<_>, HashSet<_>) =
        grants.map(|set| set.args[2].split_once('-').unwrap()).unzip();
    assert_eq!((processes.len(), bits.len()), (PROCESSES, PROCESSES * ROUNDS));
}

#[tokio::test]
async fn does_not_restore_a_deleted_key() {
    #[redis_lock(key = "deleted-key", ttl = "1s", manager = manager)]
    async fn work(manager: &LockManager) -> Result<(), LockError> {
        sleep(ms(2_000)).await;
        Ok(())
    }

    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let call = tokio::spawn(async move { work(&locks).await });
    sleep(ms(330)).await;
    assert_eq!(redis.del("deleted-key").await.unwrap(), 1);
    let end = call.await.unwrap();

    // The loss is reported by the reply to the renewal, not at the deadline.
    assert!(matches!(end, Err(LockError::Lost { cause: LossCause::Taken, .. })), "{end:?}");
    assert!(!redis.exists("deleted-key").await.unwrap());
    log.settle().await;
    let commands = log.commands_on("deleted-key");
    let granted = commands.iter().position(|entry| is_grant(entry, "deleted-key")).unwrap();
    let creates = |name: &str| !["get", "pttl", "pexpire", "del", "exists"].contains(&name);
    let later = commands[granted + 1..].iter().filter(|entry| !is_script(entry));
    let creating: Vec<_> = later.filter(|e| creates(&e.name().to_lowercase())).collect();
    assert!(creating.is_empty(), "{creating:#?}");
    let renewal = |entry: &Entry| is_renewal(entry, "1000");
    assert!(commands.iter().any(renewal), "no renewal was requested");
}
