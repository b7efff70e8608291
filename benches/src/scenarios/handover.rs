//! e: how long it takes from a release in one process to the body in another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, sleep_until};

use super::entrants;
use crate::bench::Bench;
use crate::contenders::{Contender, Terms};
use crate::machine;
use crate::rounds::{Metric, Section};
use crate::stats::{median, quantile};
use crate::worker::Stage;

const METRICS: &[Metric] = &[
    Metric::ratio("median", "ms"),
    Metric::plain("median", "pings"),
    Metric::plain("median", "pings after a rest"),
    Metric::plain("longest", "ms"),
];

const HOLD: Duration = Duration::from_millis(50);

/// Long enough for the slowest who asks in vain once.
const TRIAL: Duration = Duration::from_millis(500);

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let trials = bench.pick(10, 3);
    let about = format!(
        "A process holds a lock for {HOLD:?}; another one asks for it 5 to 45 ms after it was taken. \
         The time between the end of the first one's body and the beginning of the second one's, \
         {trials} times per round, with changing roles. Before it, nothing has happened for the most \
         of {HOLD:?}, which makes a `PING` slower as well: \"after a rest\" is in the time of one that \
         is sent after so long."
    );
    let (subjects, left_out) = entrants(Contender::check_waits);
    let mut section = Section::new(
        "e-hand-over",
        "e. Hand-over from process to process",
        about,
        METRICS,
        &["raw"],
    );
    section.left_out = left_out;
    section
        .measure(bench, &subjects, async |contender, ping| {
            let work = |first| super::Work::HandOver(Work { first, trials });
            let works = vec![work(true), work(false)];
            let fleet = bench.fleet(contender, Terms::default(), works).await?;
            let [first, second]: [Outcome; 2] = fleet.run().await?;
            let times = first.hand_overs(&second);
            ensure!(!times.is_empty(), "nothing was handed over");
            let rested = bench.ping_after(HOLD, 20).await?;
            let (middle, longest) = (median(&times), quantile(&times, 1000));
            Ok(vec![middle, middle * 1e3 / ping, middle * 1e3 / rested, longest])
        })
        .await
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    /// Whether this one holds in the first trial, and in every other one after that.
    first: bool,
    trials: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Beginning and end of the body in each trial, on the clock that the processes share.
    bodies: Vec<(Duration, Duration)>,
}

impl Outcome {
    /// In milliseconds, of all trials in which the roles were kept.
    fn hand_overs(&self, other: &Self) -> Vec<f64> {
        let trials = self.bodies.iter().zip(&other.bodies).enumerate();
        let roles = trials.map(|(n, (a, b))| if n % 2 == 0 { (a, b) } else { (b, a) });
        let times = roles.filter_map(|((_, end), (begin, _))| begin.checked_sub(*end));
        times.map(|time| time.as_secs_f64() * 1e3).collect()
    }
}

impl Work {
    pub(super) async fn run(self, stage: Arc<Stage>) -> Result<Outcome> {
        stage.lock.run("warm-up", Box::pin(async {})).await?;
        let clock = stage.begin().await?;
        let mut outcome = Outcome::default();
        for trial in 0..self.trials {
            let holds = (trial % 2 == 0) == self.first;
            // Spread, because some ask in a fixed rhythm.
            let delay = Duration::from_millis(5 + u64::from(trial) * 17 % 41);
            let start = Instant::from_std(clock.started) + TRIAL * trial;
            sleep_until(start + if holds { Duration::ZERO } else { delay }).await;
            outcome.bodies.push(body(&stage, trial, holds).await?);
        }
        Ok(outcome)
    }
}

/// One locked call, and when its body began and ended.
async fn body(stage: &Arc<Stage>, trial: u32, holds: bool) -> Result<(Duration, Duration)> {
    let marks = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let (body_stage, body_marks) = (Arc::clone(stage), Arc::clone(&marks));
    let body = async move {
        let began = machine::now();
        let inside = body_stage.check.enter();
        if holds {
            sleep(HOLD).await;
        }
        drop(inside);
        mark(&body_marks[0], began);
        mark(&body_marks[1], machine::now());
    };
    stage.lock.run(&format!("turn-{trial}"), Box::pin(body)).await?;
    let [begin, end] = [0, 1].map(|n| Duration::from_nanos(marks[n].load(Ordering::Relaxed)));
    Ok((begin, end))
}

fn mark(place: &AtomicU64, time: Duration) {
    place.store(time.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
}
