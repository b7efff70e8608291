//! e: the time from a release in one process to the body in another.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, sleep_until};

use super::participants;
use crate::bench::Bench;
use crate::contenders::{Contender, Settings};
use crate::machine::{self, AtomicDuration};
use crate::rounds::{Metric, Section};
use crate::stats::{median, quantile};
use crate::worker::Worker;

const METRICS: &[Metric] = &[
    Metric::ratio("median", "ms"),
    Metric::plain("median", "pings"),
    Metric::plain("median", "pings after a rest"),
    Metric::plain("longest", "ms"),
];

/// How long the first process holds the lock.
const HOLD: Duration = Duration::from_millis(50);

/// Interval of the trials: long enough for the slowest contender to retry.
const TRIAL: Duration = Duration::from_millis(500);

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let trials = bench.pick(10, 3);
    let description = format!(
        "A process holds a lock for {HOLD:?}; another one requests it 5 to 45 ms after it was \
         taken. The time is that from the end of the first body to the beginning of the second, in \
         {trials} trials per round with alternating roles. Before a hand-over, both processes are \
         idle for most of {HOLD:?}, which makes a `PING` slower as well: \"after a rest\" is in \
         multiples of a `PING` after {HOLD:?} of idle time."
    );
    let (subjects, excluded) = participants(Contender::check_waits);
    let mut section = Section::new(
        "e-hand-over",
        "e. Hand-over from process to process",
        description,
        METRICS,
        &["raw"],
    );
    section.excluded = excluded;
    section
        .measure(bench, &subjects, async |contender, ping| {
            let workload = |first| super::Workload::HandOver(Workload { first, trials });
            let workloads = vec![workload(true), workload(false)];
            let workers = bench.start_workers(contender, Settings::default(), workloads).await?;
            let [first, second]: [Outcome; 2] = workers.run().await?;
            let times = first.hand_overs(&second);
            ensure!(!times.is_empty(), "no trial had a hand-over");
            let idle_ping = bench.ping_after(HOLD, 20).await?;
            let (middle, longest) = (median(&times), quantile(&times, 1000));
            Ok(vec![middle, middle * 1e3 / ping, middle * 1e3 / idle_ping, longest])
        })
        .await
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    /// Whether this process is the holder of the first trial and of every other one after it.
    first: bool,
    trials: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Beginning and end of the body in each trial, by the clock that all processes share.
    bodies: Vec<(Duration, Duration)>,
}

impl Outcome {
    /// Returns the times in milliseconds, for all trials in which the holder was first.
    fn hand_overs(&self, other: &Self) -> Vec<f64> {
        let trials = self.bodies.iter().zip(&other.bodies).enumerate();
        let roles = trials.map(|(n, (a, b))| if n % 2 == 0 { (a, b) } else { (b, a) });
        let times = roles.filter_map(|((_, end), (begin, _))| begin.checked_sub(*end));
        times.map(|time| time.as_secs_f64() * 1e3).collect()
    }
}

impl Workload {
    pub(super) async fn run(self, worker: Arc<Worker>) -> Result<Outcome> {
        worker.lock.run("warm-up", Box::pin(async {})).await?;
        let clock = worker.begin().await?;
        let mut outcome = Outcome::default();
        for trial in 0..self.trials {
            let holds = (trial % 2 == 0) == self.first;
            // The delays vary, because some contenders poll at a fixed interval.
            let delay = Duration::from_millis(5 + u64::from(trial) * 17 % 41);
            let start = Instant::from_std(clock.started) + TRIAL * trial;
            sleep_until(start + if holds { Duration::ZERO } else { delay }).await;
            outcome.bodies.push(body(&worker, trial, holds).await?);
        }
        Ok(outcome)
    }
}

/// Makes a locked call and returns the beginning and the end of its body.
async fn body(worker: &Arc<Worker>, trial: u32, holds: bool) -> Result<(Duration, Duration)> {
    let times = Arc::new([AtomicDuration::default(), AtomicDuration::default()]);
    let (body_worker, body_times) = (Arc::clone(worker), Arc::clone(&times));
    let body = async move {
        let began = machine::now();
        let running = body_worker.overlaps.enter();
        if holds {
            sleep(HOLD).await;
        }
        drop(running);
        body_times[0].store(began);
        body_times[1].store(machine::now());
    };
    worker.lock.run(&format!("trial-{trial}"), Box::pin(body)).await?;
    Ok((times[0].load(), times[1].load()))
}
