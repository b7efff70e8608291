//! Measures this project beside other distributed locks, on a Redis server of its own.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml` runs everything and writes tables and
//! plots to `benches/results`; `--help` tells how to run less.

mod bench;
mod check;
mod contenders;
mod info;
mod machine;
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

/// Measures this project beside other distributed locks.
#[derive(Debug, Parser)]
struct Args {
    /// What to measure; everything by default
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<Scenario>,
    /// How often each contender is measured, in turns with the others
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Where tables and plots are written
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
    out: PathBuf,
    /// Try everything out in a short time; the numbers mean little
    #[arg(long)]
    quick: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// The parts of this program that run as processes of their own.
#[derive(Debug, Subcommand)]
enum Part {
    /// Take and release a free lock: to be run under callgrind
    Count {
        /// Which lock
        #[arg(long)]
        contender: Contender,
        /// How often
        #[arg(long)]
        pairs: u32,
        /// The server
        #[arg(long)]
        url: String,
    },
    /// Does a job that is described in JSON.
    #[command(hide = true)]
    Worker { job: String },
    /// Keeps a core awake.
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

/// Fails when two bodies ran at the same time.
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
            // Each time, so that nothing is lost when a long run is stopped.
            report::write(&args.out, &bench, &sections).await?;
        }
        print!("{}", report::markdown(&bench, &sections).await?);
        Ok(ExitCode::from(u8::from(sections.iter().any(Section::has_overlaps))))
    })
}
