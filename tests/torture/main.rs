//! Eight processes compete for four locks while faults hit them and their servers, and a checker
//! goes through the recorded history.
//!
//! `cargo run --release -p torture -- --seconds 60 --seed 7` prints one line, and fails if a lock
//! broke a promise. With `--amnesia`, the server also forgets its locks now and then: two clients
//! may then hold the same lock for a while, and only the fences keep their writes apart. With
//! `--topology`, several servers keep the locks, and the faults hit those servers.

mod checker;
mod client;
mod faults;
mod history;
mod inject;
mod observer;
mod operation;
mod resource;
mod testbed;
mod topology;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use tempfile::TempDir;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use checker::Rules;
use faults::Schedule;
use testbed::Testbed;
use topology::Topology;

const CLIENTS: usize = 8;
const KEYS: usize = 4;
const TTL: Duration = Duration::from_secs(1);

/// Number of faults between two recovery phases.
const FAULTS_PER_PHASE: usize = 25;
/// Number of violations that are printed.
const MAX_PRINTED: usize = 20;

/// Lets clients compete for locks while faults hit them, and checks the recorded history
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    /// How long faults are injected
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of all random choices; random by default
    #[arg(long, default_value_t = fastrand::u64(..10_000))]
    seed: u64,
    /// Which servers keep the locks
    #[arg(long, value_enum, default_value_t = Topology::Server)]
    topology: Topology,
    /// Let the server forget its locks now and then
    #[arg(long, conflicts_with = "topology")]
    amnesia: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// The part of this program that runs as a process of its own.
#[derive(Debug, Subcommand)]
enum Part {
    /// Takes locks until told to stop
    #[command(hide = true)]
    Client(client::Options),
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Part::Client(options)) = args.part {
        client::run(options).await;
        return ExitCode::SUCCESS;
    }
    let dir = TempDir::with_prefix("torture-").expect("failed to create a temporary folder");
    // Futures that wait with async closures are not `Send`.
    LocalSet::new().run_until(torture(&args, dir.path())).await;

    let failovers = args.topology.loses_locks();
    let rules = Rules { ttl: TTL, loses_locks: args.amnesia || failovers, failovers };
    let verdict = checker::check(&history::read(dir.path()), &rules);
    let violations = &verdict.violations;
    if !violations.is_empty() {
        violations.iter().take(MAX_PRINTED).for_each(|violation| eprintln!("{violation}"));
        eprintln!("{} violations; the history is in {}", violations.len(), dir.keep().display());
    }
    let topology = match args.topology {
        Topology::Server => String::new(),
        other => format!(", {other}"),
    };
    println!("seed {}, {} s{topology}: {verdict}", args.seed, args.seconds);
    ExitCode::from(u8::from(!violations.is_empty()))
}

/// Runs clients, servers and faults, and leaves the history in `dir`.
async fn torture(args: &Args, dir: &Path) {
    let testbed = Arc::new(Testbed::start(dir, args.seed, args.topology, args.amnesia).await);
    let observer = tokio::spawn(Arc::clone(&testbed).observe());
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut faults = JoinSet::new();
    for (number, planned) in Schedule::new(args.seed, args.topology, args.amnesia).enumerate() {
        sleep(planned.after).await;
        if Instant::now() >= end {
            break;
        }
        faults.spawn_local(Arc::clone(&testbed).inject(number, planned));
        if number % FAULTS_PER_PHASE == FAULTS_PER_PHASE - 1 {
            wait_until_healed(&mut faults).await;
            testbed.recover().await;
        }
    }
    wait_until_healed(&mut faults).await;
    testbed.recover().await;
    testbed.stop().await;
    observer.abort();
}

/// Waits until all faults are healed.
async fn wait_until_healed(faults: &mut JoinSet<()>) {
    while let Some(healed) = faults.join_next().await {
        healed.expect("the task of a fault panicked");
    }
}

/// The name of a lock.
fn name(key: history::Key) -> String {
    format!("torture:{key}")
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
