//! g: a thousand waiters for one key.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout_at};

use super::participants;
use crate::bench::Bench;
use crate::contenders::{Contender, Settings};
use crate::machine::{self, AtomicDuration};
use crate::rounds::{Metric, Section};
use crate::stats::float;
use crate::worker::Worker;

const KEY: &str = "concert";

const WAITERS: u32 = 1_000;

const METRICS: &[Metric] = &[
    Metric::ratio("commands while idle", "1/s"),
    Metric::ratio("server CPU while idle", "% of a core"),
    Metric::ratio("drained", "waiters/s"),
    Metric::plain("drained", "%"),
    Metric::plain("time to drain", "s"),
];

/// When the holder and the waiters act, counted from the start.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Schedule {
    /// The holder releases the lock.
    release: Duration,
    /// The remaining waiters are abandoned.
    end: Duration,
}

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let [settle, count, drain] = bench.pick([2, 5, 20], [1, 1, 5]).map(Duration::from_secs);
    let release = settle + count + Duration::from_secs(1);
    let schedule = Schedule { release, end: release + drain };
    let description = format!(
        "A process holds a lock for which {WAITERS} tasks of another process wait. Commands are \
         those that clients send while the lock stays held. Then the lock is released, and each \
         waiter takes it for a body that yields once. Waiters without the lock {drain:?} after the \
         release are abandoned, and the time to drain is then shown as {drain:?}."
    );
    let (subjects, excluded) = participants(Contender::check_waits);
    let mut section =
        Section::new("g-crowd", "g. 1,000 waiters for one key", description, METRICS, &["raw"]);
    section.excluded = excluded;
    section
        .measure(bench, &subjects, async |contender, _| {
            let workloads = vec![
                super::Workload::Hold(Hold { schedule }),
                super::Workload::Wait(Wait { schedule }),
            ];
            let workers = bench.start_workers(contender, Settings::default(), workloads).await?;
            workers.start()?;
            sleep(settle).await;
            let before = bench.info().await?.cpu()?;
            let log = bench.record_commands();
            sleep(count).await;
            let cpu = bench.info().await?.cpu()? - before;
            log.settle().await;
            // The `INFO` is the benchmark's own.
            let commands = log.count(|entry| !entry.from_script() && !entry.is("INFO"));
            drop(log);

            let [released, last]: [LastBody; 2] = workers.results().await?;
            ensure!(last.bodies > 0, "none of the waiters got the lock");
            let drained = last.bodies == WAITERS;
            let seconds = match last.end.saturating_sub(released.end) {
                time if drained => time,
                _ => drain,
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

/// The end of the last body, by the clock that all processes share.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LastBody {
    end: Duration,
    bodies: u32,
}

/// Holds the lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hold {
    schedule: Schedule,
}

impl Hold {
    pub(super) async fn run(self, worker: Arc<Worker>) -> Result<LastBody> {
        let end = Arc::new(AtomicDuration::default());
        let (body_worker, body_end) = (Arc::clone(&worker), Arc::clone(&end));
        let body = async move {
            let running = body_worker.overlaps.enter();
            body_worker.begin().await.expect("the start gate failed");
            sleep(self.schedule.release).await;
            drop(running);
            body_end.store(machine::now());
        };
        worker.lock.run(KEY, Box::pin(body)).await?;
        Ok(LastBody { end: end.load(), bodies: 1 })
    }
}

/// Waits for the lock in many tasks at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wait {
    schedule: Schedule,
}

impl Wait {
    pub(super) async fn run(self, worker: Arc<Worker>) -> Result<LastBody> {
        worker.lock.run("warm-up", Box::pin(async {})).await?;
        let clock = worker.begin().await?;
        let deadline = Instant::from_std(clock.started) + self.schedule.end;
        let end = Arc::new(AtomicDuration::default());
        let mut tasks = JoinSet::new();
        for _ in 0..WAITERS {
            let (worker, end) = (Arc::clone(&worker), Arc::clone(&end));
            tasks.spawn(async move {
                let body_worker = Arc::clone(&worker);
                let body = async move {
                    let running = body_worker.overlaps.enter();
                    yield_now().await;
                    drop(running);
                    end.store(machine::now());
                };
                worker.lock.run(KEY, Box::pin(body)).await
            });
        }
        let mut bodies = 0;
        while let Ok(Some(result)) = timeout_at(deadline, tasks.join_next()).await {
            result??;
            bodies += 1;
        }
        Ok(LastBody { end: end.load(), bodies })
    }
}
