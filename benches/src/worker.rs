//! The side that is measured: a process of its own, pinned to the clients' core.
//!
//! It prints one line when it is ready, waits for the gate, works, and prints its report.

use std::fs::File;
use std::panic;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::check::Check;
use crate::contenders::{Contender, Lock, Terms};
use crate::machine::{self, CLIENT_CORE};
use crate::scenarios::Work;

/// How the line begins that says that a worker waits for the gate.
pub(crate) const READY: &str = "worker-ready";

/// How the line begins that ends with the report.
pub(crate) const DONE: &str = "worker-done";

/// After this time a worker gives up.
pub(crate) const LIMIT: Duration = Duration::from_mins(4);

/// What a worker says in the end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report<T> {
    /// What it measured, or what went wrong.
    pub(crate) result: Result<T, String>,
    /// How often it ran a body while another one ran.
    pub(crate) overlaps: u64,
}

/// What a worker is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) contender: Contender,
    pub(crate) url: String,
    pub(crate) terms: Terms,
    pub(crate) gate: PathBuf,
    pub(crate) room: PathBuf,
    pub(crate) work: Work,
}

/// What a work has at hand.
pub(crate) struct Stage {
    pub(crate) lock: Arc<dyn Lock>,
    pub(crate) check: Arc<Check>,
    gate: PathBuf,
}

/// What has passed since a work began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) started: Instant,
    cpu: Duration,
}

impl Stage {
    /// Waits for the gate and starts the clock.
    pub(crate) async fn begin(&self) -> Result<Clock> {
        let gate = File::open(&self.gate)?;
        println!("{READY}");
        spawn_blocking(move || gate.lock_shared()).await??;
        Ok(Clock { started: Instant::now(), cpu: machine::cpu_time() })
    }
}

impl Clock {
    /// Processor time of the process, in seconds.
    pub(crate) fn cpu(self) -> f64 {
        machine::cpu_time().saturating_sub(self.cpu).as_secs_f64()
    }

    pub(crate) fn seconds(self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// Does a job, from one thread: the contenders' own threads are all that is added.
pub(crate) fn run(job: &str) -> Result<()> {
    machine::pin_self(CLIENT_CORE)?;
    let job: Job = serde_json::from_str(job)?;
    let check = Arc::new(Check::open(&job.room)?);
    let hook_check = Arc::clone(&check);
    panic::set_hook(Box::new(move |panic| report(Err(panic.to_string()), &hook_check)));
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async { timeout(LIMIT, work(job, Arc::clone(&check))).await });
    let result = match done {
        Ok(done) => done.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("not done within {LIMIT:?}")),
    };
    report(result, &check);
    Ok(())
}

async fn work(job: Job, check: Arc<Check>) -> Result<Value> {
    let Job { contender, url, terms, gate, work, .. } = job;
    let lock = contender.connect(&url, terms).await?;
    work.run(Arc::new(Stage { lock, check, gate }), &url).await
}

fn report(result: Result<Value, String>, check: &Check) {
    if result.is_err() {
        println!("{READY}"); // for those who still wait for that
    }
    let report = Report { result, overlaps: check.overlaps() };
    println!("{DONE}{}", serde_json::to_string(&report).expect("this can be written as JSON"));
}
