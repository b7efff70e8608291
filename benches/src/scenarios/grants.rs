//! n: the cost of a grant with replicas, and its round trips in each topology.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use harness::Server;
use serde::{Deserialize, Serialize};

use super::delayed_servers::{self, DelayedServers};
use crate::bench::{Bench, pin};
use crate::contenders::{Contender, Settings};
use crate::machine::{self, AtomicDuration};
use crate::rounds::{Metric, Sample, Section};
use crate::stats::median;
use crate::worker::Worker;

const METRICS: &[Metric] =
    &[Metric::ratio("p50 of a grant", "µs"), Metric::ratio("p50 of a release", "µs")];

pub(super) async fn replicas(bench: &Bench) -> Result<Section> {
    let master = Server::start().await;
    let replicas = delayed_servers::replicas_of(&master, master.addr()).await;
    pin(replicas.iter().chain([&master])).await?;
    let url = master.url();
    let count = bench.pick(5_000, 500);
    let description = "One task takes and releases free locks on a master with two replicas, all \
                       on the servers' core. With `replicas(n)`, a grant counts once n replicas \
                       have acknowledged it.";
    let title = "n. Acknowledged by replicas";
    let subjects = [("this", 0), ("this, replicas(1)", 1), ("this, replicas(2)", 2)];
    Section::new("n-replicas", title, description, METRICS, &["this"])
        .measure(bench, &subjects, async |replicas, _| {
            sample(bench, &url, Settings { replicas, ..Settings::default() }, count).await
        })
        .await
}

pub(super) async fn round_trips(bench: &Bench) -> Result<Section> {
    let servers = DelayedServers::start().await?;
    let count = bench.pick(50, 10);
    let description = format!(
        "The same with a latency of {:?} one way between clients and servers, and between masters \
         and replicas, so that multiples of a `PING` are round trips.",
        delayed_servers::ONE_WAY_DELAY
    );
    Section::new("n-round-trips", "n. Round trips", description, METRICS, &["PING"])
        .measure(bench, &servers.subjects(), async |subject, _| match subject {
            None => {
                let ping = bench.ping_at(servers.server(), Duration::ZERO, count).await?;
                Ok(vec![ping, ping])
            }
            Some((url, settings)) => sample(bench, url, settings, count).await,
        })
        .await
}

async fn sample(bench: &Bench, url: &str, settings: Settings, count: usize) -> Result<Sample> {
    let workloads = vec![super::Workload::Grants(Workload { count })];
    let workers = bench.start_workers_at(url, Contender::This, settings, workloads).await?;
    let [Outcome { grants, releases }] = workers.run().await?;
    Ok(vec![median(&grants), median(&releases)])
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    count: usize,
}

/// Latencies in microseconds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    grants: Vec<f64>,
    releases: Vec<f64>,
}

impl Workload {
    pub(super) async fn run(self, worker: &Worker) -> Result<Outcome> {
        let warm_up = (self.count / 10).max(2);
        for _ in 0..warm_up {
            pair(worker, "order-17").await?;
        }
        worker.begin().await?;
        let mut outcome = Outcome::default();
        for _ in 0..self.count {
            let (grant, release) = pair(worker, "order-17").await?;
            outcome.grants.push(grant.as_secs_f64() * 1e6);
            outcome.releases.push(release.as_secs_f64() * 1e6);
        }
        Ok(outcome)
    }
}

/// Takes and releases a lock, and returns the latencies of the grant and of the release.
async fn pair(worker: &Worker, key: &str) -> Result<(Duration, Duration)> {
    let granted = Arc::new(AtomicDuration::default());
    let body_granted = Arc::clone(&granted);
    let called = machine::now();
    let body = async move { body_granted.store(machine::now()) };
    worker.lock.run(key, Box::pin(body)).await?;
    let granted = granted.load();
    Ok((granted.saturating_sub(called), machine::now().saturating_sub(granted)))
}
