//! g: very many waiters for one key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout_at};

use super::entrants;
use crate::bench::{Bench, pass};
use crate::contenders::{Contender, Terms};
use crate::machine;
use crate::rounds::{Metric, Section};
use crate::stats::float;
use crate::worker::Stage;

const KEY: &str = "concert";

const WAITERS: u32 = 1_000;

const METRICS: &[Metric] = &[
    Metric::ratio("commands while idle", "1/s"),
    Metric::ratio("server CPU while idle", "% of a core"),
    Metric::ratio("drained", "waiters/s"),
    Metric::plain("drained", "%"),
    Metric::plain("time to drain", "s"),
];

/// When things happen, counted from the start.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Schedule {
    /// All wait.
    settled: Duration,
    /// Commands were counted.
    counted: Duration,
    /// The holder releases.
    release: Duration,
    /// Those who still wait are given up.
    cap: Duration,
}

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let [settled, count, cap] = bench.pick([2, 5, 20], [1, 1, 5]).map(Duration::from_secs);
    let counted = settled + count;
    let release = counted + Duration::from_secs(1);
    let schedule = Schedule { settled, counted, release, cap: release + cap };
    let about = format!(
        "A process holds a lock for which {WAITERS} tasks of another process wait. Commands are \
         those that clients send while nothing happens. Then the lock is released, and each waiter \
         takes it for a body that yields once. Who has not had it {cap:?} after the release is \
         given up; the time to drain is then shown as that."
    );
    let (subjects, left_out) = entrants(Contender::check_waits);
    let mut section =
        Section::new("g-crowd", "g. 1,000 waiters for one key", about, METRICS, &["raw"]);
    section.left_out = left_out;
    section
        .measure(bench, &subjects, async |contender, _| {
            let works =
                vec![super::Work::Hold(Hold { schedule }), super::Work::Wait(Wait { schedule })];
            let fleet = bench.fleet(contender, Terms::default(), works).await?;
            fleet.open()?;
            pass(settled).await;
            let before = bench.info().await?.cpu()?;
            let log = bench.log();
            pass(count).await;
            let cpu = bench.info().await?.cpu()? - before;
            log.settle().await;
            // But for the question just asked.
            let commands = log.count(|entry| !entry.from_script() && !entry.is("INFO"));
            drop(log);

            let [released, last]: [Mark; 2] = results(&fleet).await?;
            ensure!(last.bodies > 0, "none of the waiters got the lock");
            let drained = last.bodies == WAITERS;
            let seconds = match last.at.saturating_sub(released.at) {
                time if drained => time,
                _ => cap,
            }
            .as_secs_f64();
            let bodies = f64::from(last.bodies);
            let values = vec![
                float(commands) / count.as_secs_f64(),
                cpu / count.as_secs_f64() * 100.0,
                bodies / seconds,
                bodies / f64::from(WAITERS) * 100.0,
                seconds,
            ];
            Ok(values)
        })
        .await
}

async fn results(fleet: &crate::bench::Fleet) -> Result<[Mark; 2]> {
    let marks = fleet.results().await?;
    marks.try_into().map_err(|_| anyhow::anyhow!("two workers report"))
}

/// The end of the last body, on the clock that the processes share.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    at: Duration,
    bodies: u32,
}

/// Holds the lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hold {
    schedule: Schedule,
}

impl Hold {
    pub(super) async fn run(self, stage: Arc<Stage>) -> Result<Mark> {
        let nanos = Arc::new(AtomicU64::new(0));
        let (body_stage, body_nanos) = (Arc::clone(&stage), Arc::clone(&nanos));
        let body = async move {
            let inside = body_stage.check.enter();
            body_stage.begin().await.expect("the gate opens");
            pass(self.schedule.release).await;
            drop(inside);
            mark(&body_nanos);
        };
        stage.lock.run(KEY, Box::pin(body)).await?;
        Ok(Mark { at: marked(&nanos), bodies: 1 })
    }
}

/// Waits for the lock, many times at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wait {
    schedule: Schedule,
}

impl Wait {
    pub(super) async fn run(self, stage: Arc<Stage>) -> Result<Mark> {
        stage.lock.run("warm-up", Box::pin(async {})).await?;
        let clock = stage.begin().await?;
        let end = Instant::from_std(clock.started) + self.schedule.cap;
        let nanos = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..WAITERS {
            let (stage, nanos) = (Arc::clone(&stage), Arc::clone(&nanos));
            tasks.spawn(async move {
                let body_stage = Arc::clone(&stage);
                let body = async move {
                    let inside = body_stage.check.enter();
                    yield_now().await;
                    drop(inside);
                    mark(&nanos);
                };
                stage.lock.run(KEY, Box::pin(body)).await
            });
        }
        let mut bodies = 0;
        while let Ok(Some(done)) = timeout_at(end, tasks.join_next()).await {
            done??;
            bodies += 1;
        }
        Ok(Mark { at: marked(&nanos), bodies })
    }
}

fn mark(place: &AtomicU64) {
    place.store(machine::now().as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
}

fn marked(place: &AtomicU64) -> Duration {
    Duration::from_nanos(place.load(Ordering::Relaxed))
}
