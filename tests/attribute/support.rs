//! Helpers of the tests of this package.

use std::cell::Cell;
use std::future::Future;
use std::time::SystemTime;

use harness::Server;
pub(super) use harness::tick;
use lock_runtime::{LockError, LockManager};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use tokio::sync::OnceCell;

use super::spans;

#[derive(Debug)]
pub(super) enum AppError {
    Lock(LockError),
    Parse(std::num::ParseIntError),
    Empty,
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<std::num::ParseIntError> for AppError {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Parse(error)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Shop {
    pub(super) base: u64,
}

/// A value that records the time of its drop.
pub(super) struct Permit;

thread_local! {
    static DROPPED: Cell<Option<SystemTime>> = const { Cell::new(None) };
}

impl Permit {
    /// Returns the time at which the last permit of this thread was dropped.
    pub(super) fn dropped() -> SystemTime {
        DROPPED.get().expect("a permit was dropped")
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        DROPPED.set(Some(SystemTime::now()));
    }
}

pub(super) async fn work(n: u64) -> Result<u64, AppError> {
    tick().await;
    Ok(n)
}

/// Returns the server whose manager is installed, the same for all tests.
pub(super) async fn server() -> &'static Server {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    SERVER
        .get_or_init(async || {
            spans::install_journal();
            let server = Server::start().await;
            let locks = LockManager::connect(server.url()).await.unwrap();
            // The server knows the scripts afterwards.
            locks.lock("warm").await.unwrap().release().await.unwrap();
            locks.install();
            server
        })
        .await
}

/// Returns the installed manager, for a test that cannot install it beforehand.
pub(super) async fn manager() -> LockManager {
    server().await;
    LockManager::global().unwrap()
}

pub(super) async fn exists(redis: &mut MultiplexedConnection, key: &str) -> bool {
    redis.exists(key).await.unwrap()
}

/// As [`harness::locking`], on the installed server.
pub(super) async fn locking<T>(key: &str, call: impl Future<Output = T>) -> T {
    harness::locking(server().await, key, call).await
}

/// As [`harness::holding`], on the installed server.
pub(super) async fn holding<T>(key: &str, call: impl Future<Output = T>) -> T {
    harness::holding(server().await, key, call).await
}
