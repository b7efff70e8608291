//! Waits for a held lock.

use std::env;
use std::time::{Duration, Instant};

use harness::{Child, Server, eventually};
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands;

use crate::support::{
    SOON, clients, count_keys, in_own_process, is_acquire, is_grant, is_release, ms, occupy, pttl,
    setup,
};

#[tokio::test]
async fn shortens_the_last_pause_to_the_limit() {
    let (_server, locks, mut redis) = setup().await;
    occupy(&mut redis, "k", ms(10_000)).await;
    let began = Instant::now();
    let error = locks.lock("k").wait(ms(250)).await.unwrap_err();
    let took = began.elapsed();
    assert!(error.is_busy(), "{error}");
    assert!(took >= ms(250) && took < ms(600), "{took:?}");

    // The limit is below the shortest pause, so only a shortened pause ends in time.
    let mut quickest = Duration::MAX;
    for _ in 0..10 {
        let began = Instant::now();
        assert!(locks.lock("k").wait(ms(5)).await.unwrap_err().is_busy());
        quickest = quickest.min(began.elapsed());
    }
    assert!(quickest >= ms(5) && quickest < ms(40), "{quickest:?}");
}

#[tokio::test]
async fn reports_the_time_of_the_wait_and_the_holder() {
    let (_server, locks, mut redis) = setup().await;
    occupy(&mut redis, "k", ms(10_000)).await;
    let error = locks.lock("k").wait(ms(120)).await.unwrap_err();
    let LockError::Busy { key, waited, holder, retry_after, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(key.as_str(), "k");
    assert!(waited >= ms(120) && waited < SOON, "{waited:?}");
    assert_eq!(holder.as_deref(), Some("another program"));
    let left = retry_after.unwrap();
    assert!(left > ms(5_000) && left <= ms(9_900), "{left:?}");
}

#[redis_lock(key = "<key>", ttl = "5s", wait = "0s", manager = locks)]
async fn without_waiting(locks: &LockManager, key: &str) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn sends_one_command_without_a_wait() {
    const TIMES: usize = 1_000;
    let (server, locks, mut redis) = setup().await;
    occupy(&mut redis, "held", ms(60_000)).await;
    let log = server.log();
    for _ in 0..TIMES {
        without_waiting(&locks, "free").await.unwrap();
    }
    for _ in 0..TIMES {
        assert!(without_waiting(&locks, "held").await.unwrap_err().is_busy());
    }
    log.settle().await;
    let from_clients = |key| log.count(|entry| !entry.from_script() && entry.has(key));
    assert_eq!(from_clients("free"), 2 * TIMES, "one to acquire and one to release");
    assert_eq!(from_clients("held"), TIMES);
    assert_eq!(log.count(|entry| is_acquire(entry, "free")), TIMES);
    assert_eq!(log.count(|entry| is_acquire(entry, "held")), TIMES);
    assert!(!redis.exists("{held}:waiters").await.unwrap());
    assert_eq!(redis.get("held").await.unwrap().as_deref(), Some("another program"));
}

#[tokio::test]
async fn starts_the_lease_at_the_end_of_the_wait() {
    let (_server, locks, mut redis) = setup().await;
    let began = Instant::now();
    occupy(&mut redis, "k", ms(1_500)).await;
    let guard = locks.lock("k").ttl(ms(1_000)).wait(ms(10_000)).await.unwrap();
    let left = pttl(&mut redis, "k").await;
    let remaining = guard.remaining();
    let took = began.elapsed();
    assert!(took >= ms(1_490) && took < ms(2_300), "{took:?}");
    assert!((500..=1_000).contains(&left), "{left}");
    assert!(remaining > ms(500), "{remaining:?}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn uses_little_processor_time_while_waiting() {
    if !in_own_process("single::waiting::uses_little_processor_time_while_waiting").await {
        return;
    }
    let (server, locks, mut redis) = setup().await;
    occupy(&mut redis, "k", ms(60_000)).await;
    let log = server.log();
    let before = processor_time();
    assert!(locks.lock("k").wait(ms(2_500)).await.unwrap_err().is_busy());
    let used = processor_time().saturating_sub(before);
    log.settle().await;
    let requests = log.count(|entry| is_acquire(entry, "k"));
    assert!((5..=50).contains(&requests), "{requests} requests");
    assert!(used < ms(100), "used {used:?}");
}

/// Returns the processor time of this process in steps of 10 ms, or zero where it is unknown.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ms(ticks * 10)
}

#[tokio::test]
async fn leaves_nothing_after_waits() {
    const WAITS: usize = 400;
    let (_server, locks, mut redis) = setup().await;
    for i in 0..WAITS {
        let ttl = if i % 2 == 0 { ms(400) } else { ms(60_000) };
        occupy(&mut redis, &format!("k{i}"), ttl).await;
    }
    let mut watch = redis.clone();
    let mut connections = async || clients(&mut watch).await.len();
    eventually("two connections: the callers' and the manager's", SOON, async || {
        connections().await == 2
    })
    .await;

    let mut waits = tokio::task::JoinSet::new();
    for i in 0..WAITS {
        let limit = if i % 4 == 1 { ms(300) } else { ms(30_000) };
        let request = locks.lock(format!("k{i}")).wait(limit);
        waits.spawn(async move {
            match i % 4 {
                3 => {
                    let _ = tokio::time::timeout(ms(300), request).await;
                    "dropped"
                }
                _ => match request.await {
                    Ok(guard) => guard.release().await.map_or("lost", |()| "granted"),
                    Err(error) if error.is_busy() => "busy",
                    Err(error) => panic!("{error}"),
                },
            }
        });
    }
    let outcomes = waits.join_all().await;
    let count = |what| outcomes.iter().filter(|&&outcome| outcome == what).count();
    assert_eq!((count("granted"), count("busy"), count("dropped")), (200, 100, 100));

    let channels: Vec<String> =
        redis::cmd("PUBSUB").arg("CHANNELS").arg("*").query_async(&mut redis).await.unwrap();
    assert_eq!(channels.len(), 1, "the one of the connection: {channels:?}");
    eventually("there are no more connections than before", SOON, async || {
        connections().await == 2
    })
    .await;
    assert_eq!(count_keys(&mut redis).await, WAITS / 2, "only the held keys are left");
}

const TEST: &str = "single::waiting::serves_every_waiter_of_two_processes";
const SERVER_URL: &str = "TEST_SERVER_URL";

#[tokio::test]
async fn serves_every_waiter_of_two_processes() {
    if let Ok(url) = env::var(SERVER_URL) {
        return take_turns(&url).await;
    }
    let server = Server::start().await;
    let other = Child::test(TEST, &[(SERVER_URL, &server.url())]);
    take_turns(&server.url()).await;
    other.line_matching("test result: ok. 1 passed", ms(60_000)).await;
    let mut redis = server.connection().await;
    assert_eq!(redis.get("turns").await.unwrap().as_deref(), Some("160"));
    assert!(!redis.exists("k").await.unwrap());
}

/// Runs half of the tasks, each with 20 turns. The server counts the holders.
async fn take_turns(url: &str) {
    let locks = LockManager::connect(url).await.unwrap();
    let redis = redis::Client::open(url).unwrap();
    let redis = redis.get_multiplexed_async_connection().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (locks, mut redis) = (locks.clone(), redis.clone());
        tasks.spawn(async move {
            for _ in 0..20 {
                let guard = locks.lock("k").wait(ms(60_000)).await.unwrap();
                assert_eq!(redis.incr("inside", 1).await.unwrap(), 1);
                tokio::time::sleep(ms(5)).await;
                assert_eq!(redis.decr("inside", 1).await.unwrap(), 0);
                redis.incr("turns", 1).await.unwrap();
                guard.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn waits_for_a_holder_that_renews() {
    let (server, first, mut redis) = setup().await;
    let second = LockManager::connect(server.url()).await.unwrap();
    let log = server.log();
    let guard = first.lock("k").ttl(ms(1_000)).await.unwrap();
    let waiter =
        tokio::spawn(
            async move { second.lock("k").ttl(ms(1_000)).wait(ms(10_000)).await.unwrap() },
        );
    tokio::time::sleep(ms(2_200)).await;
    guard.release().await.unwrap();
    let released = Instant::now();
    let guard = waiter.await.unwrap();
    let took = released.elapsed();
    assert!(took < ms(600), "{took:?} after the release");

    log.settle().await;
    let commands = log.commands_on("k");
    let token = redis.get("k").await.unwrap().unwrap();
    let released = commands.iter().position(|entry| is_release(entry, "k")).unwrap();
    let renewals = commands[..released].iter().filter(|entry| entry.is("PEXPIRE")).count();
    assert!(renewals >= 2, "renewed {renewals} times");
    let granted = commands.iter().rposition(|entry| is_grant(entry, "k")).unwrap();
    assert!(released < granted && commands[granted].has(&token));
    guard.release().await.unwrap();
}
