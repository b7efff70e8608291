//! Redis commands given as one line.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, cmd};

/// Parses a command whose arguments contain no spaces.
pub(crate) fn command(line: &str) -> Cmd {
    let mut words = line.split_whitespace();
    let mut command = cmd(words.next().unwrap_or_default());
    command.arg(words.collect::<Vec<_>>());
    command
}

/// Runs a command whose arguments contain no spaces.
///
/// # Panics
///
/// If the server refuses it.
pub async fn run(redis: &mut MultiplexedConnection, line: &str) {
    let done = command(line).exec_async(redis).await;
    done.unwrap_or_else(|error| panic!("{line}: {error}"));
}
