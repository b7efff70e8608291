//! Loss of a lease.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use futures_util::FutureExt as _;
use harness::{Mode, Proxy, Server};
use lock_runtime::{LockError, LockManager, LossCause, redis_lock};
use redis::AsyncTypedCommands as _;
use tokio::sync::oneshot::{self, Sender};
use tokio::time::{sleep, timeout};

use crate::support::{AT_ONCE, SOON, is_grant, is_renewal, ms, setup, tokens, wait_until_absent};

#[tokio::test]
async fn stops_a_cut_off_holder_before_the_next_grant() {
    #[redis_lock(key = "cut-off", ttl = "1s", manager = manager)]
    async fn work(manager: &LockManager, last: &Mutex<Instant>) -> Result<(), LockError> {
        loop {
            *last.lock().unwrap() = Instant::now();
            sleep(ms(1)).await;
        }
    }

    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let mut redis = server.connection().await;
    let a = LockManager::connect(proxy.url()).await.unwrap();
    let b = LockManager::connect(server.url()).await.unwrap();
    let last = Mutex::new(Instant::now());
    let other = async {
        sleep(ms(300)).await;
        proxy.both_ways(Mode::Lose);
        let guard = b.lock("cut-off").ttl(ms(30_000)).wait(SOON).await.unwrap();
        (guard, Instant::now(), redis.get("cut-off").await.unwrap())
    };
    let (end, (guard, granted, token)) = tokio::join!(timeout(2 * SOON, work(&a, &last)), other);

    let end = end.expect("the call ends");
    assert!(matches!(end, Err(LockError::Lost { cause: LossCause::Expired, .. })), "{end:?}");
    let last = last.into_inner().unwrap();
    assert!(last < granted, "a step {:?} after the next holder began", last - granted);
    sleep(ms(300)).await; // A still tries to release its lock
    proxy.both_ways(Mode::Pass);
    a.shutdown().await;
    assert_eq!(redis.get("cut-off").await.unwrap(), token);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn stops_only_the_call_whose_key_is_gone() {
    #[redis_lock(key = "taken-key:<id>", ttl = "1s", manager = manager)]
    async fn work(manager: LockManager, id: u64) -> Result<u64, LockError> {
        sleep(ms(1_600)).await;
        Ok(id)
    }

    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let calls = [1, 2, 3].map(|id| tokio::spawn(work(locks.clone(), id)));
    for id in 1..=3 {
        log.wait_for(|entry| is_grant(entry, &format!("taken-key:{id}")), SOON).await;
    }
    redis.del("taken-key:2").await.unwrap();
    let [one, two, three] = calls;

    let two = two.await.unwrap().unwrap_err();
    assert!(
        matches!(&two, LockError::Lost { key, .. } if key.as_str() == "taken-key:2"),
        "{two:?}"
    );
    assert_eq!(one.await.unwrap().unwrap(), 1);
    assert_eq!(three.await.unwrap().unwrap(), 3);
    log.settle().await;
    for key in ["taken-key:1", "taken-key:3"] {
        let renewed = log.count(|entry| entry.is("PEXPIRE") && entry.has(key));
        assert!(renewed >= 2, "{key} was renewed {renewed} times");
    }
}

#[tokio::test]
async fn ends_an_unrenewable_lease_at_its_deadline() {
    static DONE: AtomicBool = AtomicBool::new(false);
    #[redis_lock(key = "unrenewed-key", ttl = "500ms", manager = manager)]
    async fn work(manager: &LockManager) -> Result<(), LockError> {
        sleep(ms(2_000)).await;
        DONE.store(true, Ordering::Relaxed);
        Ok(())
    }

    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let mut redis = server.connection().await;
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    let silence = async {
        sleep(ms(200)).await;
        proxy.both_ways(Mode::Hold);
        sleep(ms(900)).await;
        proxy.both_ways(Mode::Pass);
    };
    let start = Instant::now();
    let call = async {
        let end = work(&locks).await;
        (end, start.elapsed())
    };
    let ((end, held), ()) = tokio::join!(call, silence);

    assert!(matches!(end, Err(LockError::Lost { cause: LossCause::Expired, .. })), "{end:?}");
    assert!(held < ms(900), "{held:?}: ended by the reply, not by the deadline");
    assert!(!DONE.load(Ordering::Relaxed));
    wait_until_absent(&mut redis, "unrenewed-key", AT_ONCE).await;
}

/// Renewals fail quickly and many times, each with a certain outcome.
#[tokio::test]
async fn keeps_the_deadline_when_renewals_fail() {
    #[redis_lock(key = "failed-renewal", ttl = "500ms", manager = manager)]
    async fn work(manager: &LockManager, proxy: &Proxy) -> Result<(), LockError> {
        proxy.refuse();
        proxy.cut();
        std::future::pending().await
    }

    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    let start = Instant::now();
    let end = timeout(SOON, work(&locks, &proxy)).await.expect("the call ends");
    let held = start.elapsed();
    assert!(matches!(end, Err(LockError::Lost { cause: LossCause::Expired, .. })), "{end:?}");
    assert!(held < ms(1_000), "{held:?}");
}

/// The server has renewed the lease, but the client does not know it.
#[tokio::test]
async fn f08_keeps_the_deadline_without_a_reply_to_a_renewal() {
    #[redis_lock(key = "f08a", ttl = "1s", manager = manager)]
    async fn work(manager: &LockManager) -> Result<(), LockError> {
        std::future::pending().await
    }

    let server = Server::start().await;
    let (proxy, log) = (Proxy::start(server.addr()), server.log());
    let mut redis = server.connection().await;
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    let mute = async {
        log.wait_for(|entry| entry.is("PEXPIRE"), SOON).await;
        sleep(ms(100)).await; // only that renewal gets its reply
        proxy.to_client(Mode::Lose);
        Instant::now()
    };
    let (end, muted) = tokio::join!(timeout(SOON, work(&locks)), mute);
    let held = muted.elapsed();
    proxy.to_client(Mode::Pass);

    let end = end.expect("the call ends");
    assert!(matches!(end, Err(LockError::Lost { cause: LossCause::Expired, .. })), "{end:?}");
    assert!(held < ms(1_300), "{held:?}");
    log.settle().await;
    assert!(log.count(|entry| entry.is("PEXPIRE")) > 1, "no further renewal has arrived");
    wait_until_absent(&mut redis, "f08a", AT_ONCE).await;
}

#[tokio::test]
async fn f08_repeats_a_renewal_without_a_reply() {
    #[redis_lock(key = "f08b", ttl = "2s", manager = manager)]
    async fn work(manager: &LockManager, proxy: &Proxy) -> Result<(), LockError> {
        proxy.lose_reply_to("EVAL"); // of the renewal; its connection gets no further replies
        sleep(ms(2_800)).await;
        Ok(())
    }

    let server = Server::start().await;
    let (proxy, log) = (Proxy::start(server.addr()), server.log());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    work(&locks, &proxy).await.unwrap();
    log.settle().await;
    let token = &tokens(&log, "f08b")[0];
    assert!(log.count(|entry| is_renewal(entry, "2000") && entry.has(token)) >= 2);
}

/// The body has returned in time, whatever happens to the release.
#[tokio::test]
async fn f34_keeps_the_result_when_the_reply_is_late() {
    #[redis_lock(key = "f34a", ttl = "500ms", renew = false, manager = manager)]
    async fn work(manager: &LockManager, proxy: &Proxy, late: Mode) -> Result<u64, LockError> {
        proxy.to_client(late);
        Ok(7)
    }

    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    work(&locks, &proxy, Mode::Pass).await.unwrap(); // the server knows the script now
    let start = Instant::now();
    assert_eq!(work(&locks, &proxy, Mode::Delay(ms(600))).await.unwrap(), 7);
    assert!(start.elapsed() > ms(600), "the reply was not late");
}

#[tokio::test]
async fn f34_keeps_the_result_when_the_release_is_late() {
    #[redis_lock(key = "f34b", ttl = "500ms", renew = false, manager = manager)]
    async fn work(manager: &LockManager, proxy: &Proxy) -> Result<u64, LockError> {
        proxy.to_server(Mode::Delay(ms(600)));
        Ok(7)
    }

    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    let start = Instant::now();
    assert_eq!(work(&locks, &proxy).await.unwrap(), 7);
    assert!(start.elapsed() > ms(600), "the release was not late");
}

/// The work cannot be stopped, but it can check the lease.
#[tokio::test]
async fn f36_lets_work_on_another_thread_see_the_loss() {
    #[redis_lock(key = "f36", ttl = "2s", lease = lease, manager = manager)]
    async fn work(manager: &LockManager, seen: Sender<LossCause>) -> Result<(), LockError> {
        let blocking = tokio::task::spawn_blocking(move || {
            while !lease.is_lost() {
                thread::sleep(ms(1));
            }
            let cause = lease.lost().now_or_never().expect("the lease is lost");
            seen.send(cause).expect("the test receives it");
        });
        blocking.await.expect("no panic");
        unreachable!("the body continues")
    }

    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    let (seen, received) = oneshot::channel();
    let (end, ()) = tokio::join!(work(&locks, seen), async {
        log.wait_for(|entry| is_grant(entry, "f36"), SOON).await;
        redis.del("f36").await.unwrap();
    });
    assert!(matches!(end, Err(LockError::Lost { cause: LossCause::Taken, .. })), "{end:?}");
    assert_eq!(timeout(SOON, received).await.unwrap().unwrap(), LossCause::Taken);
}
