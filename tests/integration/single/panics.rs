//! Guards that are dropped where a panic would abort the process.

use std::cell::RefCell;
use std::thread;
use std::time::Instant;

use lock_runtime::store::{Acquired, BoxFuture, Claim, Owned, Release, Renewal, Store, StoreError};
use lock_runtime::{Fence, LockGuard, LockManager};
use redis::AsyncTypedCommands as _;
use tokio::time::{sleep, timeout};

use crate::support::{AT_ONCE, Capture, SOON, in_own_process, ms, setup, wait_until_absent};

/// A store that fails on release.
#[derive(Debug, Clone, Copy)]
enum Failing {
    Error,
    Panic,
    PanicLater,
}

impl Store for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn acquire<'a>(&'a self, _: &'a Claim) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        let granted = Acquired::Granted { sent: Instant::now(), fence: Fence::new(1) };
        Box::pin(async { Ok(granted) })
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Owned, StoreError>>> {
        Box::pin(async { leases.iter().map(|_| Ok(Owned::Yes)).collect() })
    }

    fn release<'a>(&'a self, _: &'a Release) -> BoxFuture<'a, Result<Owned, StoreError>> {
        match self {
            Self::Error => Box::pin(async { Err(StoreError::Unknown("no reply".into())) }),
            Self::Panic => panic!("in a release"),
            Self::PanicLater => Box::pin(async { panic!("in a release") }),
        }
    }
}

/// A second panic during unwinding would abort the process.
#[tokio::test]
async fn f14_ignores_a_failed_release_during_unwinding() {
    if !in_own_process("single::panics::f14_ignores_a_failed_release_during_unwinding").await {
        return;
    }
    for failing in [Failing::Error, Failing::Panic, Failing::PanicLater] {
        let locks = LockManager::builder().timeout(ms(50)).store(failing);
        for round in 0..3 {
            let request = locks.lock("k").ttl(ms(500));
            let body = tokio::spawn(async move {
                let _guard = request.await.unwrap();
                panic!("in the body {round}");
            });
            let panic = body.await.unwrap_err().into_panic();
            let text = panic.downcast_ref::<String>();
            assert_eq!(text, Some(&format!("in the body {round}")), "{failing:?}");
        }
        timeout(SOON, locks.shutdown()).await.expect("the shutdown ends");
    }
}

thread_local! {
    static KEPT: RefCell<Vec<LockGuard>> = RefCell::default();
}

/// A panic would abort the process there, too, and most thread-local state is already destroyed.
#[tokio::test]
async fn f14_releases_a_guard_at_the_end_of_its_thread() {
    if !in_own_process("single::panics::f14_releases_a_guard_at_the_end_of_its_thread").await {
        return;
    }
    let capture = Capture::install();
    let (_server, locks, mut redis) = setup().await;
    let lost = locks.lock("lost").ttl(ms(500)).renew(false).await.unwrap();
    let taken = locks.lock("taken").await.unwrap();
    let held = locks.lock("held").await.unwrap();
    redis.del("taken").await.unwrap();
    sleep(ms(600)).await;
    let ends = thread::spawn(|| KEPT.set(vec![lost, taken, held]));
    ends.join().unwrap();
    wait_until_absent(&mut redis, "held", AT_ONCE).await;
    locks.shutdown().await;
    assert!(capture.with_key("lost").iter().any(|event| event.message() == "lost"));
}
