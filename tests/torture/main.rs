//! Eight processes compete for four locks while faults befall them and their server, and a checker
//! goes over everything that happened.
//!
//! `cargo run --release -p torture -- --seconds 60 --seed 7` prints one line, and fails if a lock
//! did not do what it promises. With `--amnesia`, the server also forgets its locks now and then:
//! then two clients may hold one for a while, and the fences alone keep them apart. `--topology` has
//! several servers keep the locks, and befalls those.

mod arena;
mod checker;
mod client;
mod faults;
mod history;
mod inject;
mod look;
mod resource;
mod topology;
mod turn;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use tempfile::TempDir;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use arena::Arena;
use checker::Rules;
use faults::Schedule;
use topology::Topology;

const CLIENTS: usize = 8;
const KEYS: usize = 4;
const TTL: Duration = Duration::from_secs(1);

/// After so many faults, there is a moment without.
const BETWEEN_QUIET: usize = 25;
/// How many violations are printed.
const SHOWN: usize = 20;

/// Lets clients compete for locks while faults befall them, and checks what happened.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    /// For how long there are faults
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What all random choices depend on; a random one by default
    #[arg(long, default_value_t = fastrand::u64(..10_000))]
    seed: u64,
    /// What keeps the locks
    #[arg(long, value_enum, default_value_t = Topology::Server)]
    topology: Topology,
    /// The server forgets its locks now and then
    #[arg(long, conflicts_with = "topology")]
    amnesia: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// The part of this program that runs as a process of its own.
#[derive(Debug, Subcommand)]
enum Part {
    /// Takes locks.
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
    let dir = TempDir::with_prefix("torture-").expect("a folder can be made");
    // What waits with async closures is bound to its thread.
    LocalSet::new().run_until(torture(&args, dir.path())).await;

    let successors = args.topology.forgets();
    let rules = Rules { ttl: TTL, amnesia: args.amnesia || successors, successors };
    let verdict = checker::check(&history::read(dir.path()), &rules);
    let violations = &verdict.violations;
    if !violations.is_empty() {
        violations.iter().take(SHOWN).for_each(|violation| eprintln!("{violation}"));
        eprintln!("{} violations; the history is in {}", violations.len(), dir.keep().display());
    }
    let topology = match args.topology {
        Topology::Server => String::new(),
        other => format!(", {other}"),
    };
    println!("seed {}, {} s{topology}: {verdict}", args.seed, args.seconds);
    ExitCode::from(u8::from(!violations.is_empty()))
}

/// Runs everything and leaves the history in `dir`.
async fn torture(args: &Args, dir: &Path) {
    let arena = Arc::new(Arena::start(dir, args.seed, args.topology, args.amnesia).await);
    let watch = tokio::spawn(Arc::clone(&arena).watch());
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut faults = JoinSet::new();
    for (number, planned) in Schedule::new(args.seed, args.topology, args.amnesia).enumerate() {
        sleep(planned.after).await;
        if Instant::now() >= end {
            break;
        }
        faults.spawn_local(Arc::clone(&arena).inject(number, planned));
        if number % BETWEEN_QUIET == BETWEEN_QUIET - 1 {
            over(&mut faults).await;
            arena.rest().await;
        }
    }
    over(&mut faults).await;
    arena.rest().await;
    arena.stop().await;
    watch.abort();
}

/// Waits until all faults are healed.
async fn over(faults: &mut JoinSet<()>) {
    while let Some(healed) = faults.join_next().await {
        healed.expect("a fault can be made and healed");
    }
}

/// The name of a lock.
fn name(key: history::Key) -> String {
    format!("torture:{key}")
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
