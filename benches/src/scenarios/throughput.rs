//! b: many tasks, each with its own key.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::participants;
use crate::bench::Bench;
use crate::contenders::Settings;
use crate::rounds::{Metric, Section};
use crate::stats::float;
use crate::worker::Worker;

const TASKS: usize = 64;

const METRICS: &[Metric] = &[
    Metric::ratio("pairs", "1/s"),
    Metric::ratio("client CPU per pair", "µs"),
    Metric::ratio("server CPU per pair", "µs"),
];

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let time = bench.pick(Duration::from_secs(3), Duration::from_millis(500));
    let description = "64 tasks of one process take and release 64 keys, each its own, as fast as \
                       possible. A pair is one acquire and one release.";
    let (subjects, _) = participants(|_| Ok(()));
    Section::new("b-throughput", "b. 64 tasks on 64 keys", description, METRICS, &["raw"])
        .measure(bench, &subjects, async |contender, _| {
            let workload = super::Workload::Throughput(Workload { time });
            let workers =
                bench.start_workers(contender, Settings::default(), vec![workload]).await?;
            let before = bench.info().await?.cpu()?;
            let [Outcome { pairs, seconds, cpu }] = workers.run().await?;
            let server_cpu = bench.info().await?.cpu()? - before;
            let pairs = float(pairs);
            let values = vec![pairs / seconds, cpu / pairs * 1e6, server_cpu / pairs * 1e6];
            Ok(values)
        })
        .await
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    time: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pairs: u64,
    seconds: f64,
    cpu: f64,
}

impl Workload {
    pub(super) async fn run(self, worker: &Worker) -> Result<Outcome> {
        for task in 0..TASKS {
            worker.lock.run(&key(task), Box::pin(ready(()))).await?;
        }
        let clock = worker.begin().await?;
        let end = clock.started + self.time;
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let lock = Arc::clone(&worker.lock);
            tasks.spawn(async move {
                let (key, mut pairs) = (key(task), 0);
                while std::time::Instant::now() < end {
                    lock.run(&key, Box::pin(ready(()))).await?;
                    pairs += 1;
                }
                anyhow::Ok(pairs)
            });
        }
        let mut pairs = 0;
        while let Some(result) = tasks.join_next().await {
            pairs += result??;
        }
        Ok(Outcome { pairs, seconds: clock.seconds(), cpu: clock.cpu() })
    }
}

fn key(task: usize) -> String {
    format!("order-{task}")
}
