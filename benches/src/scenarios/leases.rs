//! f: a large number of leases, held and renewed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::participants;
use crate::bench::Bench;
use crate::contenders::{Contender, Settings};
use crate::info::Info;
use crate::rounds::{Metric, Section};
use crate::stats::float;
use crate::worker::Worker;

const METRICS: &[Metric] = &[
    Metric::plain("client CPU", "% of a core"),
    Metric::plain("server CPU", "% of a core"),
    Metric::plain("renewals per lease", ""),
    Metric::plain("renewals", "× window / 0.7 ttl"),
    Metric::plain("least time left", "% of ttl"),
    Metric::plain("lost leases", ""),
];

/// Commands that set an expiry. No lock is acquired during the window, so these are the renewals.
const RENEWING: [&str; 7] =
    ["set", "expire", "pexpire", "expireat", "pexpireat", "getex", "psetex"];

/// Number of leases that are sampled each second.
const SAMPLE: usize = 100;

/// Maximum number of concurrent acquires.
const MAX_ACQUIRES: usize = 100;

/// How long the leases are held after the window.
const MARGIN: Duration = Duration::from_millis(500);

/// The number of leases, and the name of the section.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variant {
    id: &'static str,
    leases: usize,
}

pub(super) const THOUSAND: Variant = Variant { id: "f-leases-1000", leases: 1_000 };

pub(super) const TEN_THOUSAND: Variant = Variant { id: "f-leases-10000", leases: 10_000 };

pub(super) async fn run(bench: &Bench, variant: Variant) -> Result<Section> {
    let ttl = bench.pick(Duration::from_secs(10), Duration::from_secs(3));
    let window = ttl * 3;
    let description = format!(
        "One process holds {} locks with a ttl of {ttl:?} for {window:?}. The least time left is \
         the minimum over {SAMPLE} leases that are sampled each second. A lost lease has expired \
         on the server or was reported lost to its holder.",
        variant.leases
    );
    let title = format!("f. {} held leases", variant.leases);
    let (subjects, excluded) = participants(Contender::check_renews);
    let mut section = Section::new(variant.id, title, description, METRICS, &[]);
    section.excluded = excluded;
    section
        .measure(bench, &subjects, async |contender, _| {
            let settings = Settings { ttl, renewed: true, ..Settings::default() };
            let workload = super::Workload::Leases(Workload { leases: variant.leases, window });
            let workers = bench.start_workers(contender, settings, vec![workload]).await?;
            let mut sampler = Sampler::begin(bench, ttl).await?;
            workers.start()?;
            sampler.sample(bench, window).await?;
            let end = bench.info().await?;
            let [Outcome { cpu, lost }] = workers.results().await?;

            let (before, seconds) = (&sampler.before, window.as_secs_f64());
            let renewals: f64 =
                RENEWING.iter().map(|name| end.calls(name) - before.calls(name)).sum();
            let renewals = renewals / float(variant.leases);
            let expired = end.number("expired_keys")? - before.number("expired_keys")?;
            let values = vec![
                cpu / seconds * 100.0,
                (end.cpu()? - before.cpu()?) / seconds * 100.0,
                renewals,
                renewals / (seconds / (0.7 * ttl.as_secs_f64())),
                sampler.least_left * 100.0,
                expired.max(float(lost)),
            ];
            Ok(values)
        })
        .await
}

/// Samples the leases on the server.
struct Sampler {
    before: Info,
    keys: Vec<String>,
    ttl: Duration,
    /// As a fraction of the ttl.
    least_left: f64,
}

impl Sampler {
    async fn begin(bench: &Bench, ttl: Duration) -> Result<Self> {
        let keys: Vec<String> = bench.query(redis::cmd("KEYS").arg("*lease-*")).await?;
        ensure!(!keys.is_empty(), "no leases are held");
        let before = bench.info().await?;
        Ok(Self { before, keys, ttl, least_left: 1.0 })
    }

    async fn sample(&mut self, bench: &Bench, window: Duration) -> Result<()> {
        let end = Instant::now() + window;
        let mut keys = self.keys.iter().cycle();
        while Instant::now() < end {
            sleep_until(end.min(Instant::now() + Duration::from_secs(1))).await;
            for key in keys.by_ref().take(SAMPLE) {
                let left: i64 = bench.query(redis::cmd("PTTL").arg(key)).await?;
                let left = Duration::from_millis(left.try_into().unwrap_or(0));
                self.least_left = self.least_left.min(left.div_duration_f64(self.ttl));
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    leases: usize,
    window: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    cpu: f64,
    lost: usize,
}

impl Workload {
    pub(super) async fn run(self, worker: Arc<Worker>) -> Result<Outcome> {
        let (release, released) = watch::channel(false);
        let (held, all_held) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let permits = Arc::new(Semaphore::new(MAX_ACQUIRES));
        let mut tasks = JoinSet::new();
        for lease in 0..self.leases {
            let lock = Arc::clone(&worker.lock);
            let (held, all_held) = (Arc::clone(&held), Arc::clone(&all_held));
            let mut released = released.clone();
            let permit = Arc::clone(&permits).acquire_owned().await?;
            let body = async move {
                drop(permit);
                if held.fetch_add(1, Ordering::Relaxed) + 1 == self.leases {
                    all_held.notify_one();
                }
                // The sender is dropped only at the end of the program.
                let _ = released.wait_for(|released| *released).await;
            };
            tasks.spawn(async move { lock.run(&format!("lease-{lease}"), Box::pin(body)).await });
        }
        wait_until_held(&all_held, &mut tasks).await?;

        let clock = worker.begin().await?;
        sleep(self.window).await;
        let cpu = clock.cpu();
        sleep(MARGIN).await;
        release.send_replace(true);
        let mut lost = 0;
        while let Some(result) = tasks.join_next().await {
            lost += usize::from(result?.is_err());
        }
        Ok(Outcome { cpu, lost })
    }
}

/// Waits until all locks are held, and fails if a task ends earlier.
async fn wait_until_held(all_held: &Notify, tasks: &mut JoinSet<Result<()>>) -> Result<()> {
    tokio::select! {
        () = all_held.notified() => Ok(()),
        Some(result) = tasks.join_next() => {
            result??;
            bail!("a lock was released before all were held")
        }
    }
}
