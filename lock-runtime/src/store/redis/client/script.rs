//! [`Script`]: a Lua script, which Redis runs atomically.

use std::sync::OnceLock;
use std::time::Duration;

use redis::{Cmd, Pipeline};

use super::connection::Connection;
use super::error::{ClientError, Kind, Reply};
use super::replication::WriteReply;

/// A script. Each call passes all keys that it uses.
#[derive(Debug)]
pub(crate) struct Script {
    code: &'static str,
    hash: OnceLock<String>,
}

/// The keys and the arguments of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a [u8]],
}

impl Script {
    pub(crate) const fn new(code: &'static str) -> Self {
        Self { code, hash: OnceLock::new() }
    }

    /// Runs the script.
    pub(crate) async fn call(&self, connection: &Connection, call: Call<'_>) -> Reply {
        match connection.call(&self.command(connection, call)).await {
            Err(error) if error.kind == Kind::NoScript => {
                connection.call(&self.in_full(call)).await
            }
            reply => reply,
        }
    }

    /// Runs the script, and lets replicas acknowledge what it writes.
    pub(crate) async fn write(&self, connection: &Connection, call: Call<'_>) -> WriteReply {
        match connection.write(self.command(connection, call)).await {
            Err(error) if error.kind == Kind::NoScript => {
                connection.write(self.in_full(call)).await
            }
            written => written,
        }
    }

    /// Runs the script once for each call, with one acknowledgement for all; as
    /// [`Connection::write_timed`].
    pub(crate) async fn write_timed(
        &self,
        connection: &Connection,
        calls: &[Call<'_>],
        patience: Duration,
    ) -> Result<Vec<WriteReply>, ClientError> {
        let mut commands = Pipeline::new();
        for call in calls {
            commands.add_command(self.command(connection, *call));
        }
        let mut replies = connection.write_timed(commands, patience).await?.separate();
        for (reply, call) in replies.iter_mut().zip(calls) {
            if reply.as_ref().is_err_and(|error| error.kind == Kind::NoScript) {
                *reply = connection.write(self.in_full(*call)).await;
            }
        }
        Ok(replies)
    }

    /// Sends the script in full in its first call on a connection: the server may be new, and a
    /// renewal may have no time for a second round trip. Later calls find the script in the
    /// server's cache.
    fn command(&self, connection: &Connection, call: Call<'_>) -> Cmd {
        if connection.is_first_call(self.code) {
            return self.in_full(call);
        }
        let hash = self.hash.get_or_init(|| redis::Script::new(self.code).get_hash().to_owned());
        command("EVALSHA", hash, call)
    }

    /// `EVAL` also adds the script to the server's cache.
    fn in_full(&self, call: Call<'_>) -> Cmd {
        command("EVAL", self.code, call)
    }
}

fn command(name: &str, script: &str, Call { keys, args }: Call<'_>) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), 256);
    command.arg(name).arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}

/// A duration as an argument of Redis, which counts in milliseconds: rounded up, and never zero,
/// because an expiry of zero deletes the key.
pub(crate) fn millis(duration: Duration) -> String {
    duration.as_nanos().div_ceil(1_000_000).max(1).to_string()
}
