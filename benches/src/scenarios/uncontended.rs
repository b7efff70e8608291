//! a: one task that takes free locks in sequence.

use std::future::ready;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::participants;
use crate::bench::{Bench, Workers};
use crate::contenders::Settings;
use crate::rounds::{Metric, Sample, Section};
use crate::stats::{float, quantile};
use crate::worker::Worker;

pub(super) const METRICS: &[Metric] = &[
    Metric::ratio("p50", "µs"),
    Metric::ratio("p99", "µs"),
    Metric::plain("p50", "pings"),
    Metric::plain("client CPU per pair", "µs"),
];

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let description = "One task takes and releases free locks in sequence, each with an empty body \
                       and a key that was not used recently. The times are those of one pair of \
                       acquire and release.";
    let (subjects, _) = participants(|_| Ok(()));
    Section::new("a-uncontended", "a. Without contention", description, METRICS, &["raw"])
        .measure(bench, &subjects, async |contender, ping| {
            let workers =
                bench.start_workers(contender, Settings::default(), workload(bench)).await?;
            sample(workers, ping).await
        })
        .await
}

pub(super) fn workload(bench: &Bench) -> Vec<super::Workload> {
    let time = bench.pick(Duration::from_secs(2), Duration::from_millis(300));
    vec![super::Workload::Uncontended(Workload { time })]
}

/// Runs the worker and returns the values of the [`METRICS`].
pub(super) async fn sample(workers: Workers, ping: f64) -> Result<Sample> {
    let [Outcome { micros, cpu }] = workers.run().await?;
    let (p50, p99) = (quantile(&micros, 500), quantile(&micros, 990));
    let cpu = cpu / float(micros.len()) * 1e6;
    Ok(vec![p50, p99, p50 / ping, cpu])
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    time: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    micros: Vec<f64>,
    cpu: f64,
}

impl Workload {
    pub(super) async fn run(self, worker: &Worker) -> Result<Outcome> {
        let keys: Vec<String> = (0..1000).map(|id| format!("order-{id}")).collect();
        for key in &keys {
            worker.lock.run(key, Box::pin(ready(()))).await?;
        }
        let mut micros = Vec::new();
        let clock = worker.begin().await?;
        for key in keys.iter().cycle() {
            let called = Instant::now();
            worker.lock.run(key, Box::pin(ready(()))).await?;
            micros.push(called.elapsed().as_secs_f64() * 1e6);
            if clock.started.elapsed() >= self.time {
                break;
            }
        }
        Ok(Outcome { cpu: clock.cpu(), micros })
    }
}
