//! c and d: many tasks take the same key repeatedly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinSet, yield_now};

use super::participants;
use crate::bench::Bench;
use crate::contenders::{Contender, Settings};
use crate::machine::AtomicDuration;
use crate::rounds::{Metric, Section};
use crate::stats::{float, quantile};
use crate::worker::Worker;

const KEY: &str = "account";

const METRICS: &[Metric] = &[
    Metric::ratio("acquisitions", "1/s"),
    Metric::plain("acquisitions", "per ping"),
    Metric::plain("most / fewest per task", ""),
    Metric::plain("wait p50", "ms"),
    Metric::plain("wait p99", "ms"),
    Metric::plain("commands per acquisition", ""),
];

/// The contending processes, and the tasks of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variant {
    id: &'static str,
    title: &'static str,
    processes: usize,
    tasks: usize,
}

pub(super) const ONE_PROCESS: Variant =
    Variant { id: "c-one-process", title: "c. 16 tasks on one key", processes: 1, tasks: 16 };

pub(super) const FOUR_PROCESSES: Variant = Variant {
    id: "d-four-processes",
    title: "d. 4 processes with 4 tasks each on one key",
    processes: 4,
    tasks: 4,
};

pub(super) async fn run(bench: &Bench, variant: Variant) -> Result<Section> {
    let time = bench.pick(Duration::from_secs(3), Duration::from_secs(1));
    let description = format!(
        "{} process(es) with {} tasks each take the same key repeatedly for {time:?}. The body \
         yields once to other tasks. \"per ping\" is the number of acquisitions in the time of one \
         `PING`. A wait lasts from the call to the beginning of the body. Commands are those that \
         clients send, counted by `MONITOR` in a separate pass, because the server's statistics \
         also count the commands of scripts.",
        variant.processes, variant.tasks
    );
    let (subjects, excluded) = participants(Contender::check_waits);
    let mut section = Section::new(variant.id, variant.title, description, METRICS, &["raw"]);
    section.excluded = excluded;
    section
        .measure(bench, &subjects, async |contender, ping| {
            let total = contend(bench, contender, variant, time).await?;
            let (commands, acquisitions) = commands(bench, contender, variant, time / 3).await?;
            let rate = float(total.per_task.iter().sum::<u64>()) / time.as_secs_f64();
            let [most, fewest] = [total.per_task.iter().max(), total.per_task.iter().min()];
            let values = vec![
                rate,
                rate * ping / 1e6,
                float(most.copied().unwrap_or(0)) / float(fewest.copied().unwrap_or(0)),
                quantile(&total.waits, 500),
                quantile(&total.waits, 990),
                commands / acquisitions,
            ];
            Ok(values)
        })
        .await
}

/// Runs the measured pass.
async fn contend(
    bench: &Bench,
    contender: Contender,
    variant: Variant,
    time: Duration,
) -> Result<Outcome> {
    let workers =
        bench.start_workers(contender, Settings::default(), variant.workloads(time)).await?;
    workers.start()?;
    Ok(workers.all_results().await?.into_iter().fold(Outcome::default(), Outcome::merge))
}

/// Runs the counting pass and returns the numbers of client commands and acquisitions.
async fn commands(
    bench: &Bench,
    contender: Contender,
    variant: Variant,
    time: Duration,
) -> Result<(f64, f64)> {
    let workers =
        bench.start_workers(contender, Settings::default(), variant.workloads(time)).await?;
    let log = bench.record_commands();
    workers.start()?;
    let results: Vec<Outcome> = workers.all_results().await?;
    log.settle().await;
    let commands = log.count(|entry| !entry.from_script());
    Ok((float(commands), float(results.iter().map(|result| result.acquisitions).sum::<u64>())))
}

impl Variant {
    fn workloads(self, time: Duration) -> Vec<super::Workload> {
        vec![super::Workload::Contention(Workload { tasks: self.tasks, time }); self.processes]
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    tasks: usize,
    time: Duration,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// In milliseconds.
    waits: Vec<f64>,
    /// The number of bodies that each task began in time.
    per_task: Vec<u64>,
    /// All bodies, including those of calls that were still waiting at the end.
    acquisitions: u64,
}

impl Outcome {
    fn merge(mut self, other: Self) -> Self {
        self.waits.extend(other.waits);
        self.per_task.extend(other.per_task);
        self.acquisitions += other.acquisitions;
        self
    }
}

impl Workload {
    pub(super) async fn run(self, worker: Arc<Worker>) -> Result<Outcome> {
        worker.lock.run("warm-up", Box::pin(async {})).await?;
        let clock = worker.begin().await?;
        let end = clock.started + self.time;
        let mut tasks = JoinSet::new();
        for _ in 0..self.tasks {
            tasks.spawn(acquire_repeatedly(Arc::clone(&worker), end));
        }
        let mut total = Outcome::default();
        while let Some(result) = tasks.join_next().await {
            total = total.merge(result??);
        }
        Ok(total)
    }
}

async fn acquire_repeatedly(worker: Arc<Worker>, end: Instant) -> Result<Outcome> {
    let mut outcome = Outcome { per_task: vec![0], ..Outcome::default() };
    let waited = Arc::new(AtomicDuration::default());
    loop {
        let called = Instant::now();
        if called >= end {
            return Ok(outcome);
        }
        let (body_worker, body_waited) = (Arc::clone(&worker), Arc::clone(&waited));
        let body = async move {
            let running = body_worker.overlaps.enter();
            body_waited.store(called.elapsed());
            yield_now().await;
            drop(running);
        };
        worker.lock.run(KEY, Box::pin(body)).await?;
        outcome.acquisitions += 1;
        let wait = waited.load();
        if called + wait < end {
            outcome.waits.push(wait.as_secs_f64() * 1e3);
            outcome.per_task[0] += 1;
        }
    }
}
