//! What the command log and the keys say of a lock.

use std::process::Command;
use std::time::Duration;

use harness::{Child, CommandLog, Entry, eventually};
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;

/// How long the cases allow for what is done at once.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(1);

/// Starts the program `holder`, whose options stand in `holder/main.rs`.
pub(crate) fn holder(url: &str, key: &str, options: &[String]) -> Child {
    Child::spawn(Command::new(env!("CARGO_BIN_EXE_holder")).args([url, key]).args(options))
}

/// Returns when `key` does not exist.
pub(crate) async fn absent(redis: &mut MultiplexedConnection, key: &str, limit: Duration) {
    let what = format!("{key} is gone");
    eventually(&what, limit, async || !redis.exists(key).await.unwrap()).await;
}

/// How many keys there are.
pub(crate) async fn keys(redis: &mut MultiplexedConnection) -> usize {
    redis::cmd("DBSIZE").query_async(redis).await.unwrap()
}

/// Whether a client asks for the script that lets a lock live for `ttl` milliseconds.
pub(crate) fn is_renewal(entry: &Entry, ttl: &str) -> bool {
    is_script(entry) && entry.args.last().is_some_and(|last| last == ttl)
}

/// Whether a client asks for a script.
pub(crate) fn is_script(entry: &Entry) -> bool {
    entry.is("EVALSHA") || entry.is("EVAL")
}

/// The tokens with which clients asked for `key`, in order.
pub(crate) fn tokens(log: &CommandLog, key: &str) -> Vec<String> {
    let mut commands = log.commands_on(key);
    commands.retain(|entry| entry.is("SET") && !entry.from_script());
    commands.into_iter().map(|mut set| set.args.swap_remove(2)).collect()
}
