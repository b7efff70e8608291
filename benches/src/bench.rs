//! The side that measures: a server, and fleets of worker processes that use it.

use std::cell::Cell;
use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use harness::{Child, CommandLog, Server};
use redis::aio::MultiplexedConnection;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::contenders::{Contender, Terms};
use crate::info::Info;
use crate::machine::{self, CLIENT_CORE, SERVER_CORE};
use crate::scenarios::{Work, ping};
use crate::worker::{DONE, Job, LIMIT, READY, Report};

/// What every scenario needs.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    server: Server,
    connection: MultiplexedConnection,
    overlaps: Rc<Cell<u64>>,
    _spinners: Vec<Child>,
}

/// Worker processes that are connected and wait for the signal to start.
#[derive(Debug)]
pub(crate) struct Fleet {
    workers: Vec<Child>,
    gate: File,
    overlaps: Rc<Cell<u64>>,
    _dir: TempDir,
}

impl Bench {
    pub(crate) async fn start(rounds: usize, quick: bool) -> Result<Self> {
        let server = Server::start().await;
        let connection = server.connection().await;
        pin([&server]).await?;
        let mut spinners = Vec::new();
        for core in [SERVER_CORE, CLIENT_CORE].into_iter().take(machine::cores()) {
            spinners.push(Child::spawn(own_program()?.arg("spin").arg(core.to_string())));
        }
        let overlaps = Rc::default();
        Ok(Self { rounds, quick, server, connection, overlaps, _spinners: spinners })
    }

    /// One value for measuring, and a smaller one for trying out.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) async fn info(&self) -> Result<Info> {
        Info::read(&mut self.connection.clone()).await
    }

    /// Records each command, from now on and until it is dropped.
    pub(crate) fn log(&self) -> CommandLog {
        self.server.log()
    }

    pub(crate) async fn query<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T> {
        Ok(command.query_async(&mut self.connection.clone()).await?)
    }

    /// The median time of a `PING`, in microseconds.
    pub(crate) async fn ping(&self) -> Result<f64> {
        self.ping_after(Duration::ZERO, self.pick(5_000, 500)).await
    }

    /// The same, when nothing has happened for a while before each of them.
    pub(crate) async fn ping_after(&self, rest: Duration, count: usize) -> Result<f64> {
        self.ping_at(&self.url(), rest, count).await
    }

    /// The same, of another server.
    pub(crate) async fn ping_at(&self, url: &str, rest: Duration, count: usize) -> Result<f64> {
        let job = Work::Ping(ping::Work { count, rest });
        let fleet = self.fleet_at(url, Contender::Raw, Terms::default(), vec![job]).await?;
        let [micros] = fleet.run().await?;
        Ok(micros)
    }

    /// How often two bodies ran at the same time since this was asked last.
    pub(crate) fn take_overlaps(&self) -> u64 {
        self.overlaps.take()
    }

    /// Starts one process for each work, with an empty server.
    pub(crate) async fn fleet(
        &self,
        contender: Contender,
        terms: Terms,
        works: Vec<Work>,
    ) -> Result<Fleet> {
        let () = self.query(&redis::cmd("FLUSHALL")).await?;
        self.fleet_at(&self.url(), contender, terms, works).await
    }

    /// Starts one process for each work, with other servers.
    pub(crate) async fn fleet_at(
        &self,
        url: &str,
        contender: Contender,
        terms: Terms,
        works: Vec<Work>,
    ) -> Result<Fleet> {
        let dir = TempDir::with_prefix("benches-")?;
        let gate = dir.path().join("gate");
        let fleet_gate = File::create(&gate)?;
        fleet_gate.lock()?;
        let mut workers = Vec::new();
        for work in works {
            let (url, gate, room) = (url.to_owned(), gate.clone(), dir.path().join("room"));
            let job = serde_json::to_string(&Job { contender, url, terms, gate, room, work })?;
            workers.push(Child::spawn(own_program()?.arg("worker").arg(job)));
        }
        for worker in &workers {
            worker.line_matching(READY, LIMIT).await;
        }
        let overlaps = Rc::clone(&self.overlaps);
        Ok(Fleet { workers, gate: fleet_gate, overlaps, _dir: dir })
    }
}

impl Fleet {
    /// Gives the signal to start.
    pub(crate) fn open(&self) -> Result<()> {
        Ok(self.gate.unlock()?)
    }

    /// What the workers report when they have done their work.
    pub(crate) async fn results<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let mut results = Vec::new();
        for worker in &self.workers {
            let line = worker.line_matching(DONE, LIMIT * 2).await;
            let report: Report<T> = serde_json::from_str(&line[DONE.len()..])?;
            self.overlaps.update(|overlaps| overlaps + report.overlaps);
            results.push(report.result);
        }
        let results: Result<Vec<T>, String> = results.into_iter().collect();
        results.map_err(|error| anyhow!(error))
    }

    /// Starts the workers and waits for their reports, of which there are `N`.
    pub(crate) async fn run<T: DeserializeOwned, const N: usize>(self) -> Result<[T; N]> {
        self.open()?;
        let results = self.results().await?;
        results.try_into().map_err(|_| anyhow!("not as many reports as workers"))
    }
}

/// Keeps servers on their core.
pub(crate) async fn pin(servers: impl IntoIterator<Item = &Server>) -> Result<()> {
    for server in servers {
        machine::pin_process(process_id(server).await?, SERVER_CORE)?;
    }
    Ok(())
}

/// Keeps replicas or sentinels there, behind the servers that clients wait for: they would have machines of
/// their own.
pub(crate) async fn pin_behind(servers: impl IntoIterator<Item = &Server>) -> Result<()> {
    for server in servers {
        let process = process_id(server).await?;
        machine::pin_process(process, SERVER_CORE)?;
        machine::put_behind(process)?;
    }
    Ok(())
}

async fn process_id(server: &Server) -> Result<u32> {
    let info = Info::read(&mut server.connection().await).await?;
    Ok(info.field("process_id")?.parse()?)
}

/// This program, to be started anew.
pub(crate) fn own_program() -> Result<Command> {
    let path: PathBuf = env::current_exe().context("the program's own path")?;
    Ok(Command::new(path))
}

/// Lets `time` pass.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
