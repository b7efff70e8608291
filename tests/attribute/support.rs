//! The server of this binary, what the cases share, and a look at the lock from outside.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use harness::{Entry, Server};
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

/// Records the moment of its drop.
pub(super) struct Permit;

thread_local! {
    static DROPPED: Cell<Option<SystemTime>> = const { Cell::new(None) };
}

impl Permit {
    /// When the last one on this thread was dropped.
    pub(super) fn dropped() -> SystemTime {
        DROPPED.get().expect("a permit was dropped")
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        DROPPED.set(Some(SystemTime::now()));
    }
}

/// Gives the scheduler a turn. In a call under [`holding`] it also looks at the key.
pub(super) async fn tick() {
    if let Ok(watch) = WATCH.try_with(Arc::clone) {
        assert!(exists(&mut watch.redis.clone(), &watch.key).await, "{} is not held", watch.key);
        watch.looks.fetch_add(1, Ordering::Relaxed);
    }
    tokio::task::yield_now().await;
}

pub(super) async fn work(n: u64) -> Result<u64, AppError> {
    tick().await;
    Ok(n)
}

/// The server of this binary, whose manager is installed.
pub(super) async fn server() -> &'static Server {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    SERVER
        .get_or_init(async || {
            spans::listen();
            let server = Server::start().await;
            let locks = LockManager::connect(server.url()).await.unwrap();
            // Teaches the server the scripts.
            locks.lock("warm").await.unwrap().release().await.unwrap();
            locks.install();
            server
        })
        .await
}

/// The installed manager, where a case cannot install it beforehand.
pub(super) async fn manager() -> LockManager {
    server().await;
    LockManager::global().unwrap()
}

pub(super) async fn exists(redis: &mut MultiplexedConnection, key: &str) -> bool {
    redis.exists(key).await.unwrap()
}

/// What `call` gives, which has locked exactly `key` meanwhile: it took it with one command, held it
/// at each [`tick`], and deleted it with another one before it returned.
pub(super) async fn locking<T>(key: &str, call: impl Future<Output = T>) -> T {
    watched(key, call).await.0
}

/// As [`locking`], for a body that ticks.
pub(super) async fn holding<T>(key: &str, call: impl Future<Output = T>) -> T {
    let (value, looks) = watched(key, call).await;
    assert!(looks > 0, "nobody has looked while {key} was held");
    value
}

struct Watch {
    key: String,
    redis: MultiplexedConnection,
    looks: AtomicUsize,
}

tokio::task_local! {
    static WATCH: Arc<Watch>;
}

async fn watched<T>(key: &str, call: impl Future<Output = T>) -> (T, usize) {
    let server = server().await;
    let mut redis = server.connection().await;
    assert!(!exists(&mut redis, key).await, "another test uses {key}");
    let log = server.log();
    let looks = AtomicUsize::new(0);
    let watch = Arc::new(Watch { key: key.to_owned(), redis: redis.clone(), looks });

    let value = WATCH.scope(Arc::clone(&watch), call).await;

    assert!(!exists(&mut redis, key).await, "{key} is left behind");
    log.settle().await;
    let mut commands = log.commands_on(key);
    commands.retain(|command| !command.is("EXISTS"));
    // Only the first call on a connection has the script in full.
    let name = |command: &Entry| command.name().to_uppercase().replace("EVALSHA", "EVAL");
    let names: Vec<_> = commands.iter().map(name).collect();
    let expected = ["EVAL", "GET", "SET", "EVAL", "GET", "DEL"];
    assert_eq!(names, expected, "{key}: {:#?}", log.entries());
    assert_eq!(commands[2].args[3], "PX");
    (value, watch.looks.load(Ordering::Relaxed))
}
