//! The classic mistakes of hand-made locks.

use std::time::Duration;

use lock_runtime::{LockError, LockManager, LossCause, redis_lock};
use redis::{AsyncTypedCommands as _, Script};
use tokio::time::{sleep, timeout};

use crate::support::{
    FENCE_KEY, SOON, is_acquire, is_grant, is_renewal, is_script, ms, pttl, setup, tokens,
};

#[redis_lock(key = "classic:<id>", ttl = "1s", manager = manager)]
async fn work(manager: &LockManager, id: u64, time: Duration) -> Result<u64, LockError> {
    sleep(time).await;
    Ok(id)
}

/// With SETNX and then EXPIRE, a holder that dies in between locks for ever.
#[tokio::test]
async fn acquires_in_one_command() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    work(&locks, 1, ms(800)).await.unwrap(); // with one renewal
    log.settle().await;

    let commands = log.commands_on("classic:1");
    let token = &tokens(&log, "classic:1")[0];
    assert!(is_acquire(&commands[0], "classic:1"), "{:?}", commands[0]);
    let (sets, others): (Vec<_>, Vec<_>) = commands[1..].iter().partition(|entry| entry.is("SET"));
    assert_eq!(sets.len(), 1, "{sets:#?}");
    assert!(sets[0].from_script(), "in the same step as the check of the key");
    assert_eq!(sets[0].args, ["SET", "classic:1", token, "PX", "1000"]);
    for entry in others {
        let harmless = ["get", "pexpire", "del"].contains(&&*entry.name().to_lowercase());
        assert!(is_script(entry) || (harmless && entry.from_script()), "{entry:?}");
    }
}

/// A bare DEL would free the lock of the current holder.
#[tokio::test]
async fn compares_the_token_before_the_delete() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    work(&locks, 2, Duration::ZERO).await.unwrap();
    let guard = locks.lock("classic:foreign").ttl(ms(10_000)).await.unwrap();
    redis.set_ex("classic:foreign", "another holder", 60).await.unwrap();
    let released = guard.release().await;
    locks.shutdown().await;
    log.settle().await;

    let commands = log.commands_on("classic:2");
    let token = &tokens(&log, "classic:2")[0];
    for entry in commands[1..].iter().filter(|entry| !entry.from_script()) {
        assert!(is_script(entry) && entry.has(token), "{entry:?}");
    }
    assert!(commands.last().unwrap().is("DEL"), "{commands:#?}");

    assert!(matches!(released, Err(LockError::Lost { .. })), "{released:?}");
    assert_eq!(redis.get("classic:foreign").await.unwrap().unwrap(), "another holder");
    assert_eq!(log.count(|entry| entry.is("DEL") && entry.has("classic:foreign")), 0);
}

/// Without an expiry, a holder that dies locks for ever. (`ui` tests that this does not compile.)
#[tokio::test]
async fn never_leaves_a_key_without_ttl() {
    #[redis_lock(key = "classic:kept", ttl = "400ms", min_hold = "300ms", manager = manager)]
    async fn keep(manager: &LockManager) -> Result<(), LockError> {
        Ok(())
    }
    #[redis_lock(key = "classic:bare", ttl = "1s", renew = false, manager = manager)]
    async fn bare(manager: &LockManager) -> Result<(), LockError> {
        sleep(ms(100)).await;
        Ok(())
    }
    #[redis_lock(key = "classic:queue", ttl = "1s", wait = "10s", manager = manager)]
    async fn queue(manager: &LockManager) -> Result<(), LockError> {
        sleep(ms(50)).await;
        Ok(())
    }
    async fn calls(locks: &LockManager) {
        tokio::try_join!(keep(locks), bare(locks), queue(locks), queue(locks), queue(locks))
            .unwrap();
        work(locks, 3, ms(1_500)).await.unwrap();
        timeout(ms(100), work(locks, 4, SOON)).await.unwrap_err(); // dropped during the hold
        let guard = locks.lock("classic:plain").await.unwrap();
        guard.release().await.unwrap();
    }

    let (_server, locks, mut redis) = setup().await;
    // Reads all keys at one instant.
    let script = Script::new(
        "local keys = redis.call('KEYS', '*')
         for _, key in ipairs(keys) do
           if redis.call('PTTL', key) == -1 and key ~= ARGV[1] then return {#keys, key} end
         end
         return {#keys}",
    );
    let mut seen = 0;
    let look = async {
        loop {
            let found: Vec<String> = script.arg(FENCE_KEY).invoke_async(&mut redis).await.unwrap();
            assert_eq!(found.get(1), None, "a key without an expiry");
            seen += usize::from(found[0] != "1");
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = calls(&locks) => {}
        () = look => {}
    }
    assert!(seen > 100, "only {seen} looks have found a key");
}

/// If the reply to a renewal were ignored, two bodies would run and the first would never notice.
#[tokio::test]
async fn reports_a_refused_renewal_as_a_loss() {
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let call = tokio::spawn(async move { work(&locks, 5, SOON).await });
    log.wait_for(|entry| is_grant(entry, "classic:5"), SOON).await;
    redis.set_ex("classic:5", "another holder", 60).await.unwrap();
    let end = call.await.unwrap();

    assert!(matches!(end, Err(LockError::Lost { cause: LossCause::Taken, .. })), "{end:?}");
    log.settle().await;
    let token = &tokens(&log, "classic:5")[0];
    assert!(log.count(|entry| is_renewal(entry, "1000") && entry.has(token)) > 0);
    assert_eq!(redis.get("classic:5").await.unwrap().unwrap(), "another holder");
    assert!(pttl(&mut redis, "classic:5").await > 10_000, "the renewal has changed a foreign key");
}
