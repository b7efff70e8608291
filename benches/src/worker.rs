//! A measured process, pinned to the clients' core.
//!
//! It prints a line when it is ready, waits for the start gate, runs its workload, and prints a
//! report.

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

use crate::contenders::{Contender, Lock, Settings};
use crate::machine::{self, CLIENT_CORE};
use crate::overlap::OverlapDetector;
use crate::scenarios::Workload;

/// Prefix of the line of a worker that waits for the start gate.
pub(crate) const READY: &str = "worker-ready";

/// Prefix of the line with the report.
pub(crate) const DONE: &str = "worker-done";

/// Timeout of a worker.
pub(crate) const LIMIT: Duration = Duration::from_mins(4);

/// The final report of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report<T> {
    /// The measurements, or the error.
    pub(crate) result: Result<T, String>,
    /// How often a body began while another one ran.
    pub(crate) overlaps: u64,
}

/// The instructions for a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) contender: Contender,
    pub(crate) url: String,
    pub(crate) settings: Settings,
    pub(crate) gate: PathBuf,
    pub(crate) body_lock: PathBuf,
    pub(crate) workload: Workload,
}

/// The connected lock of a worker, its overlap detector and its start gate.
pub(crate) struct Worker {
    pub(crate) lock: Arc<dyn Lock>,
    pub(crate) overlaps: Arc<OverlapDetector>,
    gate: PathBuf,
}

/// Measures wall-clock and processor time from the start of a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) started: Instant,
    cpu: Duration,
}

impl Worker {
    /// Waits for the start gate and starts the clock.
    pub(crate) async fn begin(&self) -> Result<Clock> {
        let gate = File::open(&self.gate)?;
        println!("{READY}");
        spawn_blocking(move || gate.lock_shared()).await??;
        Ok(Clock { started: Instant::now(), cpu: machine::cpu_time() })
    }
}

impl Clock {
    /// Returns the processor time of the process, in seconds.
    pub(crate) fn cpu(self) -> f64 {
        machine::cpu_time().saturating_sub(self.cpu).as_secs_f64()
    }

    pub(crate) fn seconds(self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// Runs a job on one thread; any further threads are those of the contender.
pub(crate) fn run(job: &str) -> Result<()> {
    machine::pin_self(CLIENT_CORE)?;
    let job: Job = serde_json::from_str(job)?;
    let overlaps = Arc::new(OverlapDetector::open(&job.body_lock)?);
    let hook_overlaps = Arc::clone(&overlaps);
    panic::set_hook(Box::new(move |panic| report(Err(panic.to_string()), &hook_overlaps)));
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let result =
        runtime.block_on(async { timeout(LIMIT, run_workload(job, Arc::clone(&overlaps))).await });
    let result = match result {
        Ok(result) => result.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("not finished within {LIMIT:?}")),
    };
    report(result, &overlaps);
    Ok(())
}

async fn run_workload(job: Job, overlaps: Arc<OverlapDetector>) -> Result<Value> {
    let Job { contender, url, settings, gate, workload, .. } = job;
    let lock = contender.connect(&url, settings).await?;
    workload.run(Arc::new(Worker { lock, overlaps, gate }), &url).await
}

fn report(result: Result<Value, String>, overlaps: &OverlapDetector) {
    if result.is_err() {
        println!("{READY}"); // the measuring process may still wait for this line
    }
    let report = Report { result, overlaps: overlaps.overlaps() };
    println!("{DONE}{}", serde_json::to_string(&report).expect("a report is valid JSON"));
}
