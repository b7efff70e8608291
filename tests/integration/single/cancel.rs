//! Callers that disappear: dropped futures, ended runtimes, panics, killed processes.

use std::future::{pending, ready};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use harness::{Mode, Proxy, Server, eventually};
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands as _;
use tokio::runtime::Runtime;
use tokio::sync::{Barrier, Notify};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::support::{
    AT_ONCE, SOON, count_keys, is_grant, is_renewal, ms, setup, spawn_holder, wait_until_absent,
    warm_up,
};

#[tokio::test]
async fn releases_after_its_caller_is_gone() {
    #[redis_lock(key = "gone-caller:<id>", ttl = "5s", manager = manager)]
    async fn work(manager: &LockManager, id: u64, gate: &Barrier) -> Result<(), LockError> {
        gate.wait().await;
        Ok(())
    }

    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let mut redis = server.connection().await;
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;
    let (log, gate) = (server.log(), Barrier::new(101));
    let rounds = join_all((0..100).map(async |id| {
        let call = work(&locks, id, &gate);
        let dropped = async {
            let key = format!("gone-caller:{id}");
            log.wait_for(|entry| is_grant(entry, &key), SOON).await;
            proxy.until_sent(format!("{key}\r\n")).await; // the release
            sleep(ms(id % 5)).await;
        };
        tokio::select! {
            () = dropped => {}
            end = call => panic!("the release got a reply: {end:?}"),
        }
    }));
    let network = async {
        eventually("all are held", SOON, async || count_keys(&mut redis).await == 100).await;
        sleep(ms(100)).await; // until all releases are sent
        proxy.to_client(Mode::Delay(ms(200)));
        gate.wait().await;
    };
    tokio::join!(rounds, network);

    eventually("all are free", AT_ONCE, async || count_keys(&mut redis).await == 0).await;
    proxy.to_client(Mode::Pass);
    for id in 0..100 {
        let guard = locks.lock(format!("gone-caller:{id}")).await.unwrap();
        guard.release().await.unwrap();
    }
    log.settle().await;
    assert_eq!(log.count(|entry| is_renewal(entry, "5000")), 0);
}

#[test]
fn drops_a_call_after_its_runtime() {
    #[redis_lock(key = "ended-runtime", ttl = "2s", manager = manager)]
    async fn hold(manager: LockManager, held: Arc<Notify>) -> Result<(), LockError> {
        held.notify_one();
        pending().await
    }

    let outside = Runtime::new().unwrap();
    let (_server, locks, mut redis) = outside.block_on(setup());
    let inside = Runtime::new().unwrap();
    let held = Arc::new(Notify::new());
    let mut call = Box::pin(hold(locks.clone(), Arc::clone(&held)));
    inside.block_on(async {
        tokio::select! {
            () = held.notified() => {}
            _ = &mut call => unreachable!("the body never ends"),
        }
    });
    drop(inside);
    assert!(outside.block_on(redis.exists("ended-runtime")).unwrap());
    thread::spawn(move || drop(call)).join().unwrap();

    outside.block_on(wait_until_absent(&mut redis, "ended-runtime", ms(2_500)));
    outside.block_on(async { locks.lock("ended-runtime").await.unwrap().release().await.unwrap() });
}

#[tokio::test]
async fn propagates_a_panic_and_frees_the_lock() {
    #[redis_lock(key = "panicking-body", ttl = "30s", manager = manager)]
    async fn work(manager: LockManager, fail: bool) -> Result<(), LockError> {
        sleep(ms(100)).await;
        assert!(!fail, "boom");
        Ok(())
    }

    let (_server, locks, mut redis) = setup().await;
    let panic = tokio::spawn(work(locks.clone(), true)).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"boom"));
    wait_until_absent(&mut redis, "panicking-body", AT_ONCE).await;
    work(locks, false).await.unwrap();
}

#[tokio::test]
async fn f13_frees_the_lock_of_a_killed_process_after_its_ttl() {
    let (server, locks, _) = setup().await;
    let log = server.log();
    let options = ["ttl=1000".to_owned(), "hold=60000".to_owned()];
    let a = spawn_holder(&server.url(), "killed-process", &options);
    a.line_matching("held", SOON).await;
    let waiting = locks.lock("killed-process").ttl(ms(1_000)).wait(SOON).into_future();
    let kill = async {
        log.wait_for(|entry| entry.is("PEXPIRE"), SOON).await; // the lock was renewed
        sleep(ms(200)).await;
        a.kill();
        Instant::now()
    };
    let (guard, killed) = tokio::join!(waiting, kill);

    let waited = killed.elapsed();
    assert!(waited < ms(1_000 + 1_500), "{waited:?} after the kill");
    guard.unwrap().release().await.unwrap();
    assert!(a.lines().iter().all(|line| line != "lost"), "{:?}", a.lines());
}

#[tokio::test]
async fn f12_frees_the_lock_on_a_panic_between_any_two_awaits() {
    #[redis_lock(key = "f12", ttl = "30s", manager = manager)]
    async fn work(manager: LockManager, at: u32) -> Result<(), LockError> {
        for step in 0..4 {
            if step == at {
                panic::resume_unwind(Box::new(step)); // prints no message
            }
            yield_now().await;
        }
        Ok(())
    }

    let (_server, locks, mut redis) = setup().await;
    for at in 0..4 {
        let panic = tokio::spawn(work(locks.clone(), at)).await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref::<u32>(), Some(&at));
        wait_until_absent(&mut redis, "f12", AT_ONCE).await;
    }
    work(locks, 4).await.unwrap();
}

#[test]
fn f15_releases_guards_that_end_with_their_runtime() {
    let outside = Runtime::new().unwrap();
    let (_server, locks, mut redis) = outside.block_on(setup());
    let inside = Runtime::new().unwrap();
    for id in 0..100 {
        let locks = locks.clone();
        inside.spawn(async move {
            let _guard = locks.lock(format!("f15:{id}")).await.unwrap();
            pending::<()>().await;
        });
    }
    let all = async || count_keys(&mut redis).await == 100;
    outside.block_on(eventually("all are held", SOON, all));
    drop(inside);
    outside.block_on(locks.shutdown());
    assert_eq!(outside.block_on(count_keys(&mut redis)), 0);
}

/// As `select!` drops the branch that it does not take.
#[tokio::test]
async fn f10_frees_the_lock_of_a_body_dropped_at_any_step() {
    const STEPS: u32 = 20;
    #[redis_lock(key = "f10", ttl = "30s", manager = manager)]
    async fn work(
        manager: &LockManager,
        done: &AtomicU32,
        last: u32,
        reached: &Notify,
    ) -> Result<(), LockError> {
        for step in 1..=STEPS {
            done.store(step, Ordering::Relaxed);
            if step == last {
                reached.notify_one();
            }
            yield_now().await;
        }
        Ok(())
    }

    let (_server, locks, mut redis) = setup().await;
    for last in 1..=STEPS {
        let (done, reached) = (AtomicU32::new(0), Notify::new());
        tokio::select! {
            biased;
            () = reached.notified() => {}
            end = work(&locks, &done, last, &reached) => panic!("the call has ended: {end:?}"),
        }
        wait_until_absent(&mut redis, "f10", AT_ONCE).await;
        assert_eq!(done.load(Ordering::Relaxed), last);
    }
}

/// The abort comes during the acquire, the hold or the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f11_leaves_nothing_of_a_task_aborted_at_any_time() {
    const TASKS: u64 = 200;
    #[redis_lock(key = "f11:<id>", ttl = "30s", manager = manager)]
    async fn work(manager: LockManager, id: u64) -> Result<(), LockError> {
        sleep(ms(40)).await;
        Ok(())
    }

    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    warm_up(&locks).await;
    proxy.both_ways(Mode::Delay(ms(20)));
    let calls = stream::iter(0..TASKS).map(async |id| {
        let call = tokio::spawn(work(locks.clone(), id));
        sleep(ms(id * 37 % 250)).await;
        call.abort();
        call.await.is_ok_and(|end| end.is_ok())
    });
    let ended = calls.buffer_unordered(20).filter(|&ended| ready(ended)).count().await;
    assert!((5..180).contains(&ended), "{ended} of {TASKS} have ended by themselves");
    let mut redis = server.connection().await;
    eventually("all are free", SOON, async || count_keys(&mut redis).await == 0).await;
}
