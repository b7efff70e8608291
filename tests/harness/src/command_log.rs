//! The commands that a server runs.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::entry::Entry;
use crate::journal::{Journal, Writer};

const REPLY_LIMIT: Duration = Duration::from_secs(10);

/// A record of every command that a server runs, including those of scripts, until it is dropped.
///
/// The record lags behind the server: call [`settle`](Self::settle) before reading it. It ends when
/// the server or its connection is killed (`CLIENT KILL TYPE normal`).
#[derive(Debug)]
pub struct CommandLog {
    stream: TcpStream,
    own_address: String,
    journal: Journal<Entry>,
    markers: AtomicUsize,
}

impl CommandLog {
    pub(crate) fn start(addr: SocketAddr, password: Option<&str>) -> Self {
        let stream = TcpStream::connect(addr).expect("the server listens");
        stream.set_read_timeout(Some(REPLY_LIMIT)).expect("a limit above zero");
        let mut lines = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
        if let Some(password) = password {
            ask(&mut lines, &format!("AUTH {password}"));
        }
        ask(&mut lines, "MONITOR");
        stream.set_read_timeout(None).expect("no limit");

        let (writer, journal) = Journal::new();
        thread::spawn(move || record(lines, &writer));
        Self {
            own_address: stream.local_addr().expect("the socket is connected").to_string(),
            stream,
            journal,
            markers: AtomicUsize::new(0),
        }
    }

    /// Returns all recorded commands so far.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self.journal.items();
        entries.retain(|entry| entry.source != self.own_address);
        entries
    }

    /// Returns the commands of clients and scripts that have `key` as an argument.
    #[must_use]
    pub fn commands_on(&self, key: &str) -> Vec<Entry> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.has(key));
        entries
    }

    /// Counts the recorded commands that match.
    #[must_use]
    pub fn count(&self, matches: impl Fn(&Entry) -> bool) -> usize {
        self.entries().iter().filter(|&entry| matches(entry)).count()
    }

    /// Waits for the first command that matches, recorded before or after this call.
    ///
    /// # Panics
    ///
    /// If there is none within `limit`.
    pub async fn wait_for(&self, matches: impl Fn(&Entry) -> bool, limit: Duration) -> Entry {
        let others = |entry: &Entry| entry.source != self.own_address && matches(entry);
        self.journal.first(limit, others).await.unwrap_or_else(|| {
            panic!("no such command within {limit:?} among {:#?}", self.entries())
        })
    }

    /// Waits until every command that the server ran before this call is recorded.
    ///
    /// # Panics
    ///
    /// If the server does not reply.
    pub async fn settle(&self) {
        let marker = format!("marker-{}", self.markers.fetch_add(1, Ordering::Relaxed));
        // MONITOR also reports commands of its own connection, so the marker comes back in order.
        let ping = format!("PING {marker}\r\n");
        (&self.stream).write_all(ping.as_bytes()).expect("the server is connected");
        let is_marker = |entry: &Entry| entry.source == self.own_address && entry.has(&marker);
        let seen = self.journal.first(REPLY_LIMIT, is_marker).await;
        assert!(seen.is_some(), "the server closed the log, or does not reply");
    }
}

impl Drop for CommandLog {
    fn drop(&mut self) {
        // Ends the thread that reads from the socket.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Sends a command and expects the reply `OK`.
fn ask(lines: &mut BufReader<TcpStream>, command: &str) {
    let line = format!("{command}\r\n");
    lines.get_mut().write_all(line.as_bytes()).expect("the server is connected");
    let mut reply = String::new();
    lines.read_line(&mut reply).expect("the server replies");
    assert_eq!(reply, "+OK\r\n", "the reply to {command}");
}

fn record(lines: BufReader<TcpStream>, writer: &Writer<Entry>) {
    let lines = lines.lines().map_while(Result::ok);
    for entry in lines.filter_map(|line| Entry::parse(&line)) {
        writer.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use redis::{AsyncTypedCommands, Script};

    use super::*;
    use crate::{Server, eventually};

    #[tokio::test]
    async fn records_commands_of_clients_and_scripts() {
        let server = Server::start().await;
        let (mut redis, log) = (server.connection().await, server.log());
        redis.set("k", "v").await.unwrap();
        let delete = Script::new("return redis.call('DEL', KEYS[1])");
        let _: () = delete.key("k").invoke_async(&mut redis).await.unwrap();
        log.settle().await;

        let commands = log.commands_on("k");
        assert!(commands[0].is("SET"));
        assert_eq!(commands[0].args[1..], ["k", "v"]);
        assert!(commands.last().unwrap().is("del") && commands.last().unwrap().from_script());
        assert_eq!(log.count(|entry| entry.has("k") && entry.from_script()), 1);
    }

    #[tokio::test]
    async fn settles_after_every_earlier_command() {
        let server = Server::builder().password("secret").start().await;
        let (mut redis, log) = (server.connection().await, server.log());
        for round in 1..=200 {
            redis.set("k", round).await.unwrap();
            log.settle().await;
            assert_eq!(log.count(|entry| entry.is("set")), round);
        }
        assert_eq!(log.count(|entry| entry.is("ping")), 0);
    }

    #[tokio::test]
    async fn keeps_special_characters() {
        let server = Server::start().await;
        let (mut redis, log) = (server.connection().await, server.log());
        let strange = "\"] \\ caf\u{e9}\r\n\0";
        redis.set(strange, b"\xff").await.unwrap();
        let entry = log.wait_for(|entry| entry.is("SET"), Duration::from_secs(5)).await;
        assert_eq!(entry.args[1..], [strange, "\u{fffd}"]);
    }

    #[tokio::test]
    #[should_panic(expected = "no such command within 50ms")]
    async fn panics_when_the_limit_passes() {
        let server = Server::start().await;
        server.log().wait_for(|entry| entry.is("DEL"), Duration::from_millis(50)).await;
    }

    #[tokio::test]
    async fn stops_monitoring_on_drop() {
        let server = Server::start().await;
        let mut redis = server.connection().await;
        drop(server.log());
        eventually("no client is monitoring", Duration::from_secs(5), async || {
            let clients: String =
                redis::cmd("CLIENT").arg("LIST").query_async(&mut redis).await.unwrap();
            !clients.contains("cmd=monitor")
        })
        .await;
    }
}
