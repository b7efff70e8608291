//! The measuring process: it starts a server, and worker processes that use it.

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

use crate::contenders::{Contender, Settings};
use crate::info::Info;
use crate::machine::{self, CLIENT_CORE, SERVER_CORE};
use crate::scenarios::{Workload, ping};
use crate::worker::{DONE, Job, LIMIT, READY, Report};

/// The server and the options of all scenarios.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    server: Server,
    connection: MultiplexedConnection,
    overlaps: Rc<Cell<u64>>,
    _busy_loops: Vec<Child>,
}

/// Worker processes that have connected and wait for the start gate.
#[derive(Debug)]
pub(crate) struct Workers {
    processes: Vec<Child>,
    /// A file lock that the workers wait for.
    gate: File,
    overlaps: Rc<Cell<u64>>,
    _dir: TempDir,
}

impl Bench {
    pub(crate) async fn start(rounds: usize, quick: bool) -> Result<Self> {
        let server = Server::start().await;
        let connection = server.connection().await;
        pin([&server]).await?;
        let mut busy_loops = Vec::new();
        for core in [SERVER_CORE, CLIENT_CORE].into_iter().take(machine::cores()) {
            busy_loops.push(Child::spawn(this_program()?.arg("spin").arg(core.to_string())));
        }
        let overlaps = Rc::default();
        Ok(Self { rounds, quick, server, connection, overlaps, _busy_loops: busy_loops })
    }

    /// Returns `full`, or `quick` in a quick run.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) async fn info(&self) -> Result<Info> {
        Info::read(&mut self.connection.clone()).await
    }

    /// Records the commands that the server runs, until the log is dropped.
    pub(crate) fn record_commands(&self) -> CommandLog {
        self.server.log()
    }

    pub(crate) async fn query<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T> {
        Ok(command.query_async(&mut self.connection.clone()).await?)
    }

    /// Measures the median latency of a `PING`, in microseconds.
    pub(crate) async fn ping(&self) -> Result<f64> {
        self.ping_after(Duration::ZERO, self.pick(5_000, 500)).await
    }

    /// Measures the median latency of a `PING` after an idle time.
    pub(crate) async fn ping_after(&self, idle: Duration, count: usize) -> Result<f64> {
        self.ping_at(&self.url(), idle, count).await
    }

    /// Measures the median latency of a `PING` to the server at `url`, after an idle time.
    pub(crate) async fn ping_at(&self, url: &str, idle: Duration, count: usize) -> Result<f64> {
        let workload = Workload::Ping(ping::Workload { count, idle });
        let workers =
            self.start_workers_at(url, Contender::Raw, Settings::default(), vec![workload]).await?;
        let [micros] = workers.run().await?;
        Ok(micros)
    }

    /// Returns the number of overlapping bodies since the last call.
    pub(crate) fn take_overlaps(&self) -> u64 {
        self.overlaps.take()
    }

    /// Empties the server and starts one process per workload.
    pub(crate) async fn start_workers(
        &self,
        contender: Contender,
        settings: Settings,
        workloads: Vec<Workload>,
    ) -> Result<Workers> {
        let () = self.query(&redis::cmd("FLUSHALL")).await?;
        self.start_workers_at(&self.url(), contender, settings, workloads).await
    }

    /// Starts one process per workload, with the servers at `url`.
    pub(crate) async fn start_workers_at(
        &self,
        url: &str,
        contender: Contender,
        settings: Settings,
        workloads: Vec<Workload>,
    ) -> Result<Workers> {
        let dir = TempDir::with_prefix("benches-")?;
        let gate_path = dir.path().join("gate");
        let gate = File::create(&gate_path)?;
        gate.lock()?;
        let mut processes = Vec::new();
        for workload in workloads {
            let (url, gate) = (url.to_owned(), gate_path.clone());
            let body_lock = dir.path().join("body");
            let job = Job { contender, url, settings, gate, body_lock, workload };
            let job = serde_json::to_string(&job)?;
            processes.push(Child::spawn(this_program()?.arg("worker").arg(job)));
        }
        for process in &processes {
            process.line_matching(READY, LIMIT).await;
        }
        let overlaps = Rc::clone(&self.overlaps);
        Ok(Workers { processes, gate, overlaps, _dir: dir })
    }
}

impl Workers {
    /// Opens the start gate.
    pub(crate) fn start(&self) -> Result<()> {
        Ok(self.gate.unlock()?)
    }

    /// Waits for the workers and returns their results.
    pub(crate) async fn all_results<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let mut results = Vec::new();
        for process in &self.processes {
            let line = process.line_matching(DONE, LIMIT * 2).await;
            let report: Report<T> = serde_json::from_str(&line[DONE.len()..])?;
            self.overlaps.update(|overlaps| overlaps + report.overlaps);
            results.push(report.result);
        }
        let results: Result<Vec<T>, String> = results.into_iter().collect();
        results.map_err(|error| anyhow!(error))
    }

    /// Waits for the `N` workers and returns their results.
    pub(crate) async fn results<T: DeserializeOwned, const N: usize>(&self) -> Result<[T; N]> {
        let results = self.all_results().await?;
        results.try_into().map_err(|_| anyhow!("expected the results of {N} workers"))
    }

    /// Opens the start gate and returns the results of the `N` workers.
    pub(crate) async fn run<T: DeserializeOwned, const N: usize>(self) -> Result<[T; N]> {
        self.start()?;
        self.results().await
    }
}

/// Pins servers to their core.
pub(crate) async fn pin(servers: impl IntoIterator<Item = &Server>) -> Result<()> {
    for server in servers {
        machine::pin_process(process_id(server).await?, SERVER_CORE)?;
    }
    Ok(())
}

/// Pins replicas or sentinels to the servers' core at a lower priority, because in production they
/// would have machines of their own.
pub(crate) async fn pin_with_low_priority(
    servers: impl IntoIterator<Item = &Server>,
) -> Result<()> {
    for server in servers {
        let process = process_id(server).await?;
        machine::pin_process(process, SERVER_CORE)?;
        machine::lower_priority(process)?;
    }
    Ok(())
}

async fn process_id(server: &Server) -> Result<u32> {
    let info = Info::read(&mut server.connection().await).await?;
    Ok(info.field("process_id")?.parse()?)
}

/// Returns a command that starts this program.
pub(crate) fn this_program() -> Result<Command> {
    let path: PathBuf = env::current_exe().context("the path of this program is unknown")?;
    Ok(Command::new(path))
}
