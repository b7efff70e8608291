//! c and d: many tasks want the same key all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinSet, yield_now};

use super::entrants;
use crate::bench::Bench;
use crate::contenders::{Contender, Terms};
use crate::rounds::{Metric, Section};
use crate::stats::{float, quantile};
use crate::worker::Stage;

const KEY: &str = "account";

const METRICS: &[Metric] = &[
    Metric::ratio("acquisitions", "1/s"),
    Metric::plain("acquisitions", "per ping"),
    Metric::plain("most / fewest per task", ""),
    Metric::plain("wait p50", "ms"),
    Metric::plain("wait p99", "ms"),
    Metric::plain("commands per acquisition", ""),
];

/// Who wants the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crew {
    id: &'static str,
    title: &'static str,
    processes: usize,
    tasks: usize,
}

pub(super) const ONE_PROCESS: Crew =
    Crew { id: "c-one-process", title: "c. 16 tasks on one key", processes: 1, tasks: 16 };

pub(super) const FOUR_PROCESSES: Crew = Crew {
    id: "d-four-processes",
    title: "d. 4 processes with 4 tasks each on one key",
    processes: 4,
    tasks: 4,
};

pub(super) async fn run(bench: &Bench, crew: Crew) -> Result<Section> {
    let time = bench.pick(Duration::from_secs(3), Duration::from_secs(1));
    let about = format!(
        "{} process(es) with {} tasks each take the same key again and again, for {time:?}. The \
         body yields once to other tasks. \"per ping\" is the number of acquisitions in the time \
         of one `PING`. A wait lasts from the call to the beginning of the body. Commands are \
         those that clients send, counted by `MONITOR` in a pass of its own, because the server's \
         statistics count what scripts run as well.",
        crew.processes, crew.tasks
    );
    let (subjects, left_out) = entrants(Contender::check_waits);
    let mut section = Section::new(crew.id, crew.title, about, METRICS, &["raw"]);
    section.left_out = left_out;
    section
        .measure(bench, &subjects, async |contender, ping| {
            let total = contend(bench, contender, crew, time).await?;
            let (commands, acquisitions) = commands(bench, contender, crew, time / 3).await?;
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

/// The real pass.
async fn contend(
    bench: &Bench,
    contender: Contender,
    crew: Crew,
    time: Duration,
) -> Result<Outcome> {
    let fleet = bench.fleet(contender, Terms::default(), crew.works(time)).await?;
    fleet.open()?;
    Ok(fleet.results().await?.into_iter().fold(Outcome::default(), Outcome::merge))
}

/// The pass that only counts: commands of clients, and acquisitions.
async fn commands(
    bench: &Bench,
    contender: Contender,
    crew: Crew,
    time: Duration,
) -> Result<(f64, f64)> {
    let fleet = bench.fleet(contender, Terms::default(), crew.works(time)).await?;
    let log = bench.log();
    fleet.open()?;
    let results: Vec<Outcome> = fleet.results().await?;
    log.settle().await;
    let commands = log.count(|entry| !entry.from_script());
    Ok((float(commands), float(results.iter().map(|result| result.acquisitions).sum::<u64>())))
}

impl Crew {
    fn works(self, time: Duration) -> Vec<super::Work> {
        vec![super::Work::Contention(Work { tasks: self.tasks, time }); self.processes]
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    tasks: usize,
    time: Duration,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// In milliseconds.
    waits: Vec<f64>,
    /// How many bodies each task began in time.
    per_task: Vec<u64>,
    /// With those that came after, because the task waited already.
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

impl Work {
    pub(super) async fn run(self, stage: Arc<Stage>) -> Result<Outcome> {
        stage.lock.run("warm-up", Box::pin(async {})).await?;
        let clock = stage.begin().await?;
        let end = clock.started + self.time;
        let mut tasks = JoinSet::new();
        for _ in 0..self.tasks {
            tasks.spawn(take_turns(Arc::clone(&stage), end));
        }
        let mut total = Outcome::default();
        while let Some(done) = tasks.join_next().await {
            total = total.merge(done??);
        }
        Ok(total)
    }
}

async fn take_turns(stage: Arc<Stage>, end: Instant) -> Result<Outcome> {
    let mut outcome = Outcome { per_task: vec![0], ..Outcome::default() };
    let waited = Arc::new(AtomicU64::new(0));
    loop {
        let asked = Instant::now();
        if asked >= end {
            return Ok(outcome);
        }
        let (body_stage, body_waited) = (Arc::clone(&stage), Arc::clone(&waited));
        let body = async move {
            let inside = body_stage.check.enter();
            let nanos = asked.elapsed().as_nanos().try_into().unwrap_or(u64::MAX);
            body_waited.store(nanos, Ordering::Relaxed);
            yield_now().await;
            drop(inside);
        };
        stage.lock.run(KEY, Box::pin(body)).await?;
        outcome.acquisitions += 1;
        let wait = Duration::from_nanos(waited.load(Ordering::Relaxed));
        if asked + wait < end {
            outcome.waits.push(wait.as_secs_f64() * 1e3);
            outcome.per_task[0] += 1;
        }
    }
}
