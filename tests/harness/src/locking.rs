//! Checks that a call locks exactly one key.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;

use crate::{Entry, Server};

struct Watch {
    key: String,
    redis: MultiplexedConnection,
    looks: AtomicUsize,
}

tokio::task_local! {
    static WATCH: Arc<Watch>;
}

/// Yields to the scheduler. In a call under [`holding`], also checks that the key exists.
///
/// # Panics
///
/// If it does not.
pub async fn tick() {
    if let Ok(watch) = WATCH.try_with(Arc::clone) {
        assert!(exists(&mut watch.redis.clone(), &watch.key).await, "{} is not held", watch.key);
        watch.looks.fetch_add(1, Ordering::Relaxed);
    }
    tokio::task::yield_now().await;
}

/// Returns the value of `call` and checks that the call locked exactly `key`: it took the key with
/// one command, held it at each [`tick`], and deleted it with another command before it returned.
///
/// # Panics
///
/// If it did not.
pub async fn locking<T>(server: &Server, key: &str, call: impl Future<Output = T>) -> T {
    watched(server, key, call).await.0
}

/// As [`locking`], for a body that calls [`tick`].
///
/// # Panics
///
/// If it did not lock exactly `key`, or never called [`tick`].
pub async fn holding<T>(server: &Server, key: &str, call: impl Future<Output = T>) -> T {
    let (value, looks) = watched(server, key, call).await;
    assert!(looks > 0, "the body never checked that {key} was held");
    value
}

async fn watched<T>(server: &Server, key: &str, call: impl Future<Output = T>) -> (T, usize) {
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

async fn exists(redis: &mut MultiplexedConnection, key: &str) -> bool {
    redis.exists(key).await.expect("the server replies")
}
