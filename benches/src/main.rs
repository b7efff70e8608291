//! Compares this project with other distributed locks, on a Redis server of its own.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml` runs everything and writes tables and
//! plots to `benches/results`; `--help` explains how to run less.

mod bench;
mod contenders;
mod info;
mod machine;
mod overlap;
mod plot;
mod report;
mod rounds;
mod scenarios;
mod stats;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use tokio::runtime;

use bench::Bench;
use contenders::Contender;
use rounds::Section;
use scenarios::Scenario;

/// Compares this project with other distributed locks
#[derive(Debug, Parser)]
struct Args {
    /// Scenarios to measure; all by default
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<Scenario>,
    /// Number of rounds, in which contenders take turns
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Folder for tables and plots
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
    out: PathBuf,
    /// Only try everything out; the numbers mean little
    #[arg(long)]
    quick: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// The parts of this program that run as separate processes.
#[derive(Debug, Subcommand)]
enum Part {
    /// Take and release a free lock, for a run under callgrind
    Count {
        /// Lock to use
        #[arg(long)]
        contender: Contender,
        /// Number of pairs of acquire and release
        #[arg(long)]
        pairs: u32,
        /// URL of the server
        #[arg(long)]
        url: String,
    },
    /// Run a job that is described in JSON
    #[command(hide = true)]
    Worker { job: String },
    /// Keep a core awake
    #[command(hide = true)]
    Spin { core: usize },
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    match &args.part {
        None => measure(&args),
        Some(Part::Count { contender, pairs, url }) => {
            scenarios::count(*contender, *pairs, url).map(|()| ExitCode::SUCCESS)
        }
        Some(Part::Worker { job }) => worker::run(job).map(|()| ExitCode::SUCCESS),
        Some(Part::Spin { core }) => Ok(machine::spin(*core).map(|()| ExitCode::SUCCESS)?),
    }
}

/// Measures the scenarios; the exit code is a failure if two bodies ran at the same time.
fn measure(args: &Args) -> Result<ExitCode> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let scenarios = match &args.scenario[..] {
            [] => Scenario::value_variants(),
            chosen => chosen,
        };
        let bench = Bench::start(args.rounds, args.quick).await?;
        let mut sections = Vec::new();
        for scenario in scenarios {
            sections.extend(scenario.run(&bench).await?);
            // After each scenario, so that stopping a long run loses no results.
            report::write(&args.out, &bench, &sections).await?;
        }
        print!("{}", report::markdown(&bench, &sections).await?);
        Ok(ExitCode::from(u8::from(sections.iter().any(Section::has_overlaps))))
    })
}
