//! a: one task that takes free locks, one after the other.

use std::future::ready;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::entrants;
use crate::bench::{Bench, Fleet};
use crate::contenders::Terms;
use crate::rounds::{Metric, Sample, Section};
use crate::stats::{float, quantile};
use crate::worker::Stage;

pub(super) const METRICS: &[Metric] = &[
    Metric::ratio("p50", "µs"),
    Metric::ratio("p99", "µs"),
    Metric::plain("p50", "pings"),
    Metric::plain("client CPU per pair", "µs"),
];

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let about = "One task takes and releases free locks, one after the other, each with an empty \
                 body and a key that was not used shortly before. The time of one pair of acquire \
                 and release.";
    let (subjects, _) = entrants(|_| Ok(()));
    Section::new("a-uncontended", "a. Without contention", about, METRICS, &["raw"])
        .measure(bench, &subjects, async |contender, ping| {
            let fleet = bench.fleet(contender, Terms::default(), work(bench)).await?;
            sample(fleet, ping).await
        })
        .await
}

pub(super) fn work(bench: &Bench) -> Vec<super::Work> {
    let time = bench.pick(Duration::from_secs(2), Duration::from_millis(300));
    vec![super::Work::Uncontended(Work { time })]
}

/// The values of the [`METRICS`].
pub(super) async fn sample(fleet: Fleet, ping: f64) -> Result<Sample> {
    let [Outcome { micros, cpu }] = fleet.run().await?;
    let (p50, p99) = (quantile(&micros, 500), quantile(&micros, 990));
    let cpu = cpu / float(micros.len()) * 1e6;
    Ok(vec![p50, p99, p50 / ping, cpu])
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    time: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    micros: Vec<f64>,
    cpu: f64,
}

impl Work {
    pub(super) async fn run(self, stage: &Stage) -> Result<Outcome> {
        let keys: Vec<String> = (0..1000).map(|id| format!("order-{id}")).collect();
        for key in &keys {
            stage.lock.run(key, Box::pin(ready(()))).await?;
        }
        let mut micros = Vec::new();
        let clock = stage.begin().await?;
        for key in keys.iter().cycle() {
            let asked = Instant::now();
            stage.lock.run(key, Box::pin(ready(()))).await?;
            micros.push(asked.elapsed().as_secs_f64() * 1e6);
            if clock.started.elapsed() >= self.time {
                break;
            }
        }
        Ok(Outcome { cpu: clock.cpu(), micros })
    }
}
