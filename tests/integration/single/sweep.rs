//! Every way to end a future, at every point where it can end.

use std::future::{Future, IntoFuture as _};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;

use lock_runtime::{LockError, LockManager, redis_lock};
use redis::aio::MultiplexedConnection;
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::support::{AT_ONCE, SOON, count_keys, ms, setup, wait_for_waiters, wait_until_absent};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The work that is ended.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Acquire,
    /// The lock is held, and is released once this waiter is queued.
    Wait,
    Release,
    /// The whole call of a locked function.
    Call,
}

/// The way in which the work is ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Drop,
    Abort,
    Panic,
    /// The runtime is dropped.
    Shutdown,
}

/// A future that ends at its poll number `left` and reports that.
struct Limited {
    work: Work,
    left: usize,
    end: End,
    reached: Option<mpsc::Sender<()>>,
}

impl Future for Limited {
    /// Returns whether the work was done before.
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        if self.left == 0 {
            self.reached = None;
            return match self.end {
                End::Drop => Poll::Ready(false),
                End::Panic => panic!("on purpose"),
                End::Abort | End::Shutdown => Poll::Pending,
            };
        }
        self.left -= 1;
        self.work.as_mut().poll(cx).map(|()| true)
    }
}

/// Returns whether the work was done before its poll number `polls`.
async fn end(work: Work, polls: usize, end: End) -> bool {
    let (reached, at_the_end) = mpsc::channel();
    let limited = Limited { work, left: polls, end, reached: Some(reached) };
    match end {
        End::Drop => limited.await,
        End::Panic => tokio::spawn(limited).await.unwrap_or(false),
        End::Abort => {
            let task = tokio::spawn(limited);
            let abort = task.abort_handle();
            // Disconnected when the work is ended or done.
            tokio::task::spawn_blocking(move || at_the_end.recv().is_ok()).await.unwrap();
            abort.abort();
            task.await.unwrap_or(false)
        }
        End::Shutdown => {
            let (done, is_done) = oneshot::channel();
            thread::spawn(move || {
                let mut builder = runtime::Builder::new_multi_thread();
                let runtime = builder.worker_threads(1).enable_all().build().unwrap();
                let task = runtime.spawn(limited);
                let _ = at_the_end.recv();
                let finished =
                    if task.is_finished() { runtime.block_on(task).unwrap() } else { false };
                drop(runtime);
                let _ = done.send(finished);
            });
            is_done.await.unwrap()
        }
    }
}

#[redis_lock(key = "<key>", ttl = "30s", manager = locks)]
async fn pay(locks: LockManager, key: String) -> Result<(), LockError> {
    for _ in 0..3 {
        yield_now().await;
    }
    Ok(())
}

/// Returns the work, and other work that has to happen at the same time.
async fn begin(kind: Kind, locks: &LockManager, key: &str) -> (Work, Option<Work>) {
    let request = locks.lock(key).ttl(SOON * 3);
    match kind {
        Kind::Acquire => (Box::pin(async { drop(request.await.unwrap()) }), None),
        Kind::Release => {
            let guard = request.await.unwrap();
            (Box::pin(async { guard.release().await.unwrap() }), None)
        }
        Kind::Call => {
            let call = pay(locks.clone(), key.to_owned());
            (Box::pin(async { call.await.unwrap() }), None)
        }
        Kind::Wait => {
            let guard = request.await.unwrap();
            let waiting = locks.lock(key).ttl(SOON * 3).wait(SOON).into_future();
            let release = async { guard.release().await.unwrap() };
            (Box::pin(async { drop(waiting.await.unwrap()) }), Some(Box::pin(release)))
        }
    }
}

async fn sweep(kind: Kind, how: End) {
    let (_server, locks, mut redis) = setup().await;
    drop(locks.lock("warm").wait(SOON).await.unwrap()); // opens connections and starts threads
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut polls = 0;
    loop {
        let key = format!("{kind:?}:{how:?}:{polls}");
        let (work, beside) = begin(kind, &locks, &key).await;
        let ended = end(work, polls, how);
        let done = match beside {
            None => ended.await,
            Some(release) => tokio::join!(ended, when_queued(&mut redis, &key, release)).0,
        };
        wait_until_absent(&mut redis, &key, AT_ONCE).await;
        if done {
            break;
        }
        polls += 1;
        assert!(polls < 100, "the work never ends");
    }
    println!("{kind:?}, {how:?}: {polls} polls");
    assert!(polls > 0, "nothing was ended");
    locks.shutdown().await;
    assert_eq!(count_keys(&mut redis).await, 0);
    assert!(Handle::current().metrics().num_alive_tasks() <= tasks + 1, "tasks are leaked");
}

/// Releases once there is a waiter, or once it is clear that there will be none.
async fn when_queued(redis: &mut MultiplexedConnection, key: &str, release: Work) {
    let _ = tokio::time::timeout(ms(100), wait_for_waiters(redis, key, 1)).await;
    release.await;
}

async fn sweep_all(how: End) {
    for kind in [Kind::Acquire, Kind::Wait, Kind::Release, Kind::Call] {
        sweep(kind, how).await;
    }
}

#[tokio::test]
async fn f01_f10_leaves_nothing_when_dropped_at_any_point() {
    sweep_all(End::Drop).await;
}

#[tokio::test]
async fn f11_leaves_nothing_when_aborted_at_any_point() {
    sweep_all(End::Abort).await;
}

#[tokio::test]
async fn f12_leaves_nothing_when_panicking_at_any_point() {
    sweep_all(End::Panic).await;
}

#[tokio::test]
async fn f15_leaves_nothing_when_its_runtime_ends_at_any_point() {
    sweep_all(End::Shutdown).await;
}
