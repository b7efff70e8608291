//! f: many leases that are held and renewed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::entrants;
use crate::bench::{Bench, pass};
use crate::contenders::{Contender, Terms};
use crate::info::Info;
use crate::rounds::{Metric, Section};
use crate::stats::float;
use crate::worker::Stage;

const METRICS: &[Metric] = &[
    Metric::plain("client CPU", "% of a core"),
    Metric::plain("server CPU", "% of a core"),
    Metric::plain("renewals per lease", ""),
    Metric::plain("renewals", "× window / 0.7 ttl"),
    Metric::plain("least time left", "% of ttl"),
    Metric::plain("lost leases", ""),
];

/// Commands that set when a key expires. Nobody acquires during the window, so they renew.
const RENEWING: [&str; 7] =
    ["set", "expire", "pexpire", "expireat", "pexpireat", "getex", "psetex"];

/// How many leases are looked at each second.
const SAMPLE: usize = 100;

/// How many locks are being taken at the same time.
const AT_ONCE: usize = 100;

/// How long the leases are held beyond the window.
const MARGIN: Duration = Duration::from_millis(500);

/// How many leases, and the files' name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Herd {
    id: &'static str,
    leases: usize,
}

pub(super) const THOUSAND: Herd = Herd { id: "f-leases-1000", leases: 1_000 };

pub(super) const TEN_THOUSAND: Herd = Herd { id: "f-leases-10000", leases: 10_000 };

pub(super) async fn run(bench: &Bench, herd: Herd) -> Result<Section> {
    let ttl = bench.pick(Duration::from_secs(10), Duration::from_secs(3));
    let window = ttl * 3;
    let about = format!(
        "One process holds {} locks with a ttl of {ttl:?} for {window:?}. The least time left is \
         that of {SAMPLE} leases that are looked at each second. A lost lease has expired on the \
         server or was reported lost to its holder.",
        herd.leases
    );
    let title = format!("f. {} held leases", herd.leases);
    let (subjects, left_out) = entrants(Contender::check_renews);
    let mut section = Section::new(herd.id, title, about, METRICS, &[]);
    section.left_out = left_out;
    section
        .measure(bench, &subjects, async |contender, _| {
            let terms = Terms { ttl, renewed: true, ..Terms::default() };
            let work = super::Work::Leases(Work { leases: herd.leases, window });
            let fleet = bench.fleet(contender, terms, vec![work]).await?;
            let mut watch = Watch::begin(bench, ttl).await?;
            fleet.open()?;
            watch.look(bench, window).await?;
            let end = bench.info().await?;
            let results: Vec<Outcome> = fleet.results().await?;
            let [Outcome { cpu, lost }] = results[..] else { bail!("one worker reports") };

            let (before, seconds) = (&watch.before, window.as_secs_f64());
            let renewals: f64 =
                RENEWING.iter().map(|name| end.calls(name) - before.calls(name)).sum();
            let renewals = renewals / float(herd.leases);
            let expired = end.number("expired_keys")? - before.number("expired_keys")?;
            let values = vec![
                cpu / seconds * 100.0,
                (end.cpu()? - before.cpu()?) / seconds * 100.0,
                renewals,
                renewals / (seconds / (0.7 * ttl.as_secs_f64())),
                watch.least_left * 100.0,
                expired.max(float(lost)),
            ];
            Ok(values)
        })
        .await
}

/// What can be seen from outside.
struct Watch {
    before: Info,
    keys: Vec<String>,
    ttl: Duration,
    /// As a part of the ttl.
    least_left: f64,
}

impl Watch {
    async fn begin(bench: &Bench, ttl: Duration) -> Result<Self> {
        let keys: Vec<String> = bench.query(redis::cmd("KEYS").arg("*lease-*")).await?;
        ensure!(!keys.is_empty(), "no leases are held");
        let before = bench.info().await?;
        Ok(Self { before, keys, ttl, least_left: 1.0 })
    }

    async fn look(&mut self, bench: &Bench, window: Duration) -> Result<()> {
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
pub(crate) struct Work {
    leases: usize,
    window: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    cpu: f64,
    lost: usize,
}

impl Work {
    pub(super) async fn run(self, stage: Arc<Stage>) -> Result<Outcome> {
        let (release, released) = watch::channel(false);
        let (held, all_held) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        for lease in 0..self.leases {
            let lock = Arc::clone(&stage.lock);
            let (held, all_held) = (Arc::clone(&held), Arc::clone(&all_held));
            let mut released = released.clone();
            let turn = Arc::clone(&turns).acquire_owned().await?;
            let body = async move {
                drop(turn);
                if held.fetch_add(1, Ordering::Relaxed) + 1 == self.leases {
                    all_held.notify_one();
                }
                // An error would be the end of the program.
                let _ = released.wait_for(|released| *released).await;
            };
            tasks.spawn(async move { lock.run(&format!("lease-{lease}"), Box::pin(body)).await });
        }
        until_held(&all_held, &mut tasks).await?;

        let clock = stage.begin().await?;
        pass(self.window).await;
        let cpu = clock.cpu();
        pass(MARGIN).await;
        release.send_replace(true);
        let mut lost = 0;
        while let Some(done) = tasks.join_next().await {
            lost += usize::from(done?.is_err());
        }
        Ok(Outcome { cpu, lost })
    }
}

/// Fails when a task ends before all locks are held.
async fn until_held(all_held: &Notify, tasks: &mut JoinSet<Result<()>>) -> Result<()> {
    tokio::select! {
        () = all_held.notified() => Ok(()),
        Some(done) = tasks.join_next() => {
            done??;
            bail!("a lock was released before all were held")
        }
    }
}
