//! A scheduled job that is started on every machine and runs on only one of them.
//!
//! Start it twice with the same Redis and compare the output:
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

/// Runs a scheduled job once, however many machines start it
#[derive(Debug, Parser)]
struct Args {
    /// When to run, in UTC: second, minute, hour, day of month, month, day of week
    #[arg(long, default_value = "0 0 3 * * *")]
    schedule: Schedule,

    /// Exit after this many scheduled times
    #[arg(long, default_value_t = u32::MAX, hide_default_value = true)]
    runs: u32,

    /// Redis server that stores the lock, shared by all machines
    #[arg(long, env, hide_env_values = true, default_value = "memory://")]
    redis_url: String,
}

/// Writes the report unless another machine does.
///
/// `min_hold` keeps the lock after a quick run, so that a machine whose clock is slow does not find
/// it free and run the job again. It is longer than any difference between the clocks, and shorter
/// than the time between two runs.
#[redis_lock(key = "nightly:report", ttl = "30s", min_hold = "10s", or_else = skipped_or_failed)]
async fn report() -> String {
    sleep(Duration::from_millis(20)).await; // Simulates the work.
    "ran".to_owned()
}

fn skipped_or_failed(error: LockError) -> String {
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
        result = signal::ctrl_c() => result?,
    }
    // Waits until the lock of an interrupted report has been released.
    locks.shutdown().await;
    println!("nightly: closed");
    Ok(())
}

/// Tries to run the job at each scheduled time, at most `runs` times.
async fn run(schedule: &Schedule, runs: u32) {
    let mut last = DateTime::UNIX_EPOCH;
    for _ in 0..runs {
        let Some(next) = schedule.after(&Utc::now().max(last)).next() else {
            break;
        };
        println!("nightly: next run at {}", next.format("%F %T"));
        sleep((next - Utc::now()).to_std().unwrap_or_default()).await;
        println!("nightly: {} {}", next.format("%T"), report().await);
        last = next;
    }
}
