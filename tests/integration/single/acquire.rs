//! Acquiring a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use harness::{Mode, Proxy, Server, eventually, run};
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands as _;
use tokio::time::{sleep, timeout};

use crate::support::{
    SOON, is_grant, is_release, is_script, ms, pttl, setup, spawn_holder, tokens, warm_up,
};

#[tokio::test]
async fn sets_key_and_expiry_at_once() {
    let (server, _, mut redis) = setup().await;
    let log = server.log();
    let current = Arc::new(AtomicU32::new(0));
    let poll = tokio::spawn({
        let (mut redis, current) = (redis.clone(), Arc::clone(&current));
        async move {
            loop {
                let key = format!("new-key:{}", current.load(Ordering::Relaxed));
                let left = pttl(&mut redis, &key).await;
                assert!(left >= 0 || left == -2, "PTTL is {left}"); // 0 in the last millisecond
            }
        }
    });
    let options = ["ttl=300".to_owned(), "rounds=1000000".to_owned()];
    for round in 0..50 {
        current.store(round, Ordering::Relaxed);
        let holder = spawn_holder(&server.url(), &format!("new-key:{round}"), &options);
        let rounds = async || holder.lines().iter().filter(|line| *line == "released").count();
        eventually("ten rounds are done", SOON, async || rounds().await >= 10).await;
        sleep(Duration::from_micros(200) * (round * 37 % 50)).await; // up to 10 ms, shuffled
        holder.kill();
        let left = pttl(&mut redis, &format!("new-key:{round}")).await;
        assert!((0..=300).contains(&left) || left == -2, "PTTL is {left} after the kill");
    }
    poll.abort();
    assert!(poll.await.unwrap_err().is_cancelled());
    log.settle().await;

    let entries = log.entries();
    let mut rounds = 0;
    let harmless = ["get", "exists", "pexpire", "del", "pttl"];
    for entry in entries.iter().filter(|e| e.args[1..].iter().any(|arg| arg.contains("new-key"))) {
        match &entry.args[..] {
            [set, key, _, rest @ ..] if entry.from_script() && set == "SET" => {
                assert!(key.starts_with("new-key:"));
                assert_eq!(rest, ["PX", "300"]);
                rounds += 1;
            }
            [name, ..] if entry.from_script() || name == "PTTL" => {
                assert!(harmless.contains(&&*name.to_lowercase()), "{entry:?}");
            }
            _ => assert!(is_script(entry), "{entry:?}"),
        }
    }
    assert!(rounds >= 500, "{rounds} rounds");
}

#[tokio::test]
async fn stops_waiting_for_a_key_without_expiry() {
    #[redis_lock(key = "foreign-key", ttl = "5s", wait = "300ms", manager = manager)]
    async fn call(manager: &LockManager) -> Result<(), LockError> {
        panic!("the body runs without the lock")
    }

    let (_server, locks, mut redis) = setup().await;
    redis.set("foreign-key", "other").await.unwrap();
    let start = Instant::now();
    let busy = timeout(SOON, call(&locks)).await.expect("the call ends").unwrap_err();

    assert!(start.elapsed() >= ms(300) && start.elapsed() < ms(900), "{:?}", start.elapsed());
    let LockError::Busy { holder, retry_after, .. } = busy else { panic!("{busy:?}") };
    assert_eq!((holder.as_deref(), retry_after), (Some("other"), None));
    assert_eq!(redis.get("foreign-key").await.unwrap().unwrap(), "other");
    assert_eq!(pttl(&mut redis, "foreign-key").await, -1);
}

#[tokio::test]
async fn restores_a_lost_expiry_with_the_next_renewal() {
    #[redis_lock(key = "persisted-key", ttl = "1s", manager = manager)]
    async fn call(manager: &LockManager) -> Result<(), LockError> {
        sleep(ms(1_300)).await;
        Ok(())
    }

    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let call = tokio::spawn(async move { call(&locks).await });
    log.wait_for(|entry| is_grant(entry, "persisted-key"), SOON).await;
    run(&mut redis, "PERSIST persisted-key").await;
    assert_eq!(pttl(&mut redis, "persisted-key").await, -1);

    let has_expiry = async || (1..=1_000).contains(&pttl(&mut redis, "persisted-key").await);
    eventually("the expiry is restored", ms(1_000), has_expiry).await;
    call.await.unwrap().unwrap();
}

/// The reply arrives in time, but the client reads it after the lease has expired.
#[tokio::test(flavor = "current_thread")]
async fn f20_rejects_a_grant_older_than_its_lease() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    #[redis_lock(key = "f20", ttl = "300ms", manager = manager)]
    async fn call(manager: &LockManager) -> Result<(), LockError> {
        RUNS.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    let server = Server::start().await;
    let (proxy, log) = (Proxy::start(server.addr()), server.log());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;
    proxy.to_client(Mode::Hold);
    let stall = async {
        log.wait_for(|entry| is_grant(entry, "f20"), SOON).await;
        proxy.to_client(Mode::Pass);
        std::thread::sleep(ms(400)); // blocks the whole runtime
    };
    let (end, ()) = tokio::join!(call(&locks), stall);

    assert!(matches!(end, Err(LockError::Unavailable { .. })), "{end:?}");
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);
    let token = &tokens(&log, "f20")[0];
    log.wait_for(|entry| is_release(entry, "f20") && entry.has(token), SOON).await;
}
