//! A scheduled job that is started on every machine, and runs on one of them.
//!
//! Start it twice, with a Redis, and look at both:
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1 cargo run -p examples --bin nightly -- --schedule '*/20 * * * * *'
//! REDIS_URL=redis://127.0.0.1 cargo run -p examples --bin nightly -- --schedule '*/20 * * * * *'
//! ```

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Parser;
use cron::Schedule;
use lock_runtime::{LockError, LockManager, redis_lock};
use tokio::time::sleep;
use tokio::{select, signal};

/// A job that runs once, however many machines it is scheduled on.
#[derive(Debug, Parser)]
struct Args {
    /// When to run, in UTC: second, minute, hour, day of month, month, day of week
    #[arg(long, default_value = "0 0 3 * * *")]
    schedule: Schedule,

    /// End after so many times
    #[arg(long, default_value_t = u32::MAX, hide_default_value = true)]
    runs: u32,

    /// Redis that keeps the lock, the same for all machines
    #[arg(long, env, hide_env_values = true, default_value = "memory://")]
    redis_url: String,
}

/// Writes the report, unless another machine does.
///
/// The job may be over before a machine whose clock is late begins with it. `min_hold` keeps the
/// lock until all have tried: it is longer than the clocks may differ, and shorter than the time
/// between two runs.
#[redis_lock(key = "nightly:report", ttl = "30s", min_hold = "10s", or_else = did_not_run)]
async fn report() -> String {
    sleep(Duration::from_millis(20)).await; // Stands for the work.
    "ran".to_owned()
}

fn did_not_run(error: LockError) -> String {
    match error {
        LockError::Busy { .. } => format!("skipped: {error}"),
        error => format!("failed: {error}"),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let args = Args::parse();
    let locks = LockManager::connect(&args.redis_url).await?;
    locks.install();
    if args.redis_url.starts_with("memory:") {
        println!("nightly: the lock is in memory; set REDIS_URL to share it between processes");
    }

    select! {
        () = run(&args.schedule, args.runs) => {}
        pressed = signal::ctrl_c() => pressed?,
    }
    // A report that was stopped midway gives its lock back in the background.
    locks.shutdown().await;
    println!("nightly: closed");
    Ok(())
}

/// Runs the job at its times, until it has run `runs` times or there is no next time.
async fn run(schedule: &Schedule, runs: u32) {
    let mut last = DateTime::UNIX_EPOCH;
    for _ in 0..runs {
        let Some(next) = schedule.after(&Utc::now().max(last)).next() else {
            break;
        };
        println!("nightly: next at {}", next.format("%F %T"));
        sleep((next - Utc::now()).to_std().unwrap_or_default()).await;
        println!("nightly: {} {}", next.format("%T"), report().await);
        last = next;
    }
}
