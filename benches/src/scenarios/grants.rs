//! n: what a grant costs, by what keeps the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use harness::Server;
use serde::{Deserialize, Serialize};

use super::distant::{self, Distant};
use crate::bench::{Bench, pin};
use crate::contenders::{Contender, Terms};
use crate::machine;
use crate::rounds::{Metric, Sample, Section};
use crate::stats::median;
use crate::worker::Stage;

const METRICS: &[Metric] =
    &[Metric::ratio("p50 of a grant", "µs"), Metric::ratio("p50 of a release", "µs")];

pub(super) async fn replicas(bench: &Bench) -> Result<Section> {
    let master = Server::start().await;
    let replicas = distant::replicas_of(&master, master.addr()).await;
    pin(replicas.iter().chain([&master])).await?;
    let url = master.url();
    let count = bench.pick(5_000, 500);
    let about = "One task takes and releases free locks on a master with two replicas, all on the servers' \
                 core. With `replicas(n)`, a grant counts when so many of them have acknowledged it.";
    let title = "n. Acknowledged by replicas";
    let subjects = [("this", 0), ("this, replicas(1)", 1), ("this, replicas(2)", 2)];
    Section::new("n-replicas", title, about, METRICS, &["this"])
        .measure(bench, &subjects, async |replicas, _| {
            sample(bench, &url, Terms { replicas, ..Terms::default() }, count).await
        })
        .await
}

pub(super) async fn round_trips(bench: &Bench) -> Result<Section> {
    let distant = Distant::start().await?;
    let count = bench.pick(50, 10);
    let about = format!(
        "The same where clients are {:?} away from each server, and replicas from their master: \
         multiples of a `PING` are round trips.",
        distant::DISTANCE
    );
    Section::new("n-round-trips", "n. Round trips", about, METRICS, &["PING"])
        .measure(bench, &distant.subjects(), async |subject, _| match subject {
            None => {
                let ping = bench.ping_at(distant.server(), Duration::ZERO, count).await?;
                Ok(vec![ping, ping])
            }
            Some((url, terms)) => sample(bench, url, terms, count).await,
        })
        .await
}

async fn sample(bench: &Bench, url: &str, terms: Terms, count: usize) -> Result<Sample> {
    let works = vec![super::Work::Grants(Work { count })];
    let fleet = bench.fleet_at(url, Contender::This, terms, works).await?;
    let [Outcome { grants, releases }] = fleet.run().await?;
    Ok(vec![median(&grants), median(&releases)])
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    count: usize,
}

/// In microseconds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    grants: Vec<f64>,
    releases: Vec<f64>,
}

impl Work {
    pub(super) async fn run(self, stage: &Stage) -> Result<Outcome> {
        let warm_up = (self.count / 10).max(2);
        for _ in 0..warm_up {
            pair(stage, "order-17").await?;
        }
        stage.begin().await?;
        let mut outcome = Outcome::default();
        for _ in 0..self.count {
            let (grant, release) = pair(stage, "order-17").await?;
            outcome.grants.push(grant.as_secs_f64() * 1e6);
            outcome.releases.push(release.as_secs_f64() * 1e6);
        }
        Ok(outcome)
    }
}

/// How long the grant took, and the release.
async fn pair(stage: &Stage, key: &str) -> Result<(Duration, Duration)> {
    let granted = Arc::new(AtomicU64::new(0));
    let mark = Arc::clone(&granted);
    let asked = machine::now();
    let body = async move { mark.store(nanos(machine::now()), Ordering::Relaxed) };
    stage.lock.run(key, Box::pin(body)).await?;
    let granted = Duration::from_nanos(granted.load(Ordering::Relaxed));
    Ok((granted.saturating_sub(asked), machine::now().saturating_sub(granted)))
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}
