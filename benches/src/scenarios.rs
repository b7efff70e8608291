//! What is measured. Each scenario has two sides: `run` in the program that measures, `Work` in the
//! processes that are measured.

mod compile_time;
mod contention;
mod crowd;
mod distant;
mod failover;
mod grants;
mod handover;
mod instructions;
mod leases;
pub(crate) mod ping;
mod throughput;
mod topologies;
mod uncontended;

use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, to_value};

use crate::bench::Bench;
use crate::contenders::Contender;
use crate::rounds::Section;
use crate::worker::Stage;

pub(crate) use instructions::count;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Latency without contention
    #[value(name = "a")]
    Uncontended,
    /// Throughput of 64 tasks on 64 keys
    #[value(name = "b")]
    Throughput,
    /// 16 tasks of one process on one key
    #[value(name = "c")]
    OneProcess,
    /// 4 processes with 4 tasks each on one key
    #[value(name = "d")]
    FourProcesses,
    /// Time between a release and the next body in another process
    #[value(name = "e")]
    HandOver,
    /// 1,000 and 10,000 held leases
    #[value(name = "f")]
    Leases,
    /// 1,000 waiters for one key
    #[value(name = "g")]
    Crowd,
    /// Compile time of 200 functions
    #[value(name = "h")]
    CompileTime,
    /// Instructions of a client, counted by valgrind
    #[value(name = "i")]
    Instructions,
    /// Latency with Sentinel
    #[value(name = "j")]
    Sentinel,
    /// Latency in a Cluster
    #[value(name = "k")]
    Cluster,
    /// Latency with five independent servers
    #[value(name = "l")]
    Redlock,
    /// Time without a grant after the death of a master
    #[value(name = "m")]
    Failover,
    /// What replicas add to a grant, and the round trips of one
    #[value(name = "n")]
    Grants,
}

impl Scenario {
    pub(crate) async fn run(self, bench: &Bench) -> Result<Vec<Section>> {
        Ok(match self {
            Self::Uncontended => vec![uncontended::run(bench).await?],
            Self::Throughput => vec![throughput::run(bench).await?],
            Self::OneProcess => vec![contention::run(bench, contention::ONE_PROCESS).await?],
            Self::FourProcesses => vec![contention::run(bench, contention::FOUR_PROCESSES).await?],
            Self::HandOver => vec![handover::run(bench).await?],
            Self::Leases => vec![
                leases::run(bench, leases::THOUSAND).await?,
                leases::run(bench, leases::TEN_THOUSAND).await?,
            ],
            Self::Crowd => vec![crowd::run(bench).await?],
            Self::CompileTime => vec![compile_time::run(bench).await?],
            Self::Instructions => vec![instructions::run(bench).await?],
            Self::Sentinel => vec![topologies::sentinel(bench).await?],
            Self::Cluster => vec![topologies::cluster(bench).await?],
            Self::Redlock => vec![topologies::redlock(bench).await?],
            Self::Failover => vec![failover::run(bench).await?],
            Self::Grants => vec![grants::replicas(bench).await?, grants::round_trips(bench).await?],
        })
    }
}

/// What one worker does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Work {
    Ping(ping::Work),
    Uncontended(uncontended::Work),
    Throughput(throughput::Work),
    Contention(contention::Work),
    HandOver(handover::Work),
    Leases(leases::Work),
    Hold(crowd::Hold),
    Wait(crowd::Wait),
    Failover(failover::Work),
    Grants(grants::Work),
}

impl Work {
    pub(crate) async fn run(self, stage: Arc<Stage>, url: &str) -> Result<Value> {
        Ok(match self {
            Self::Ping(work) => to_value(work.run(&stage, url).await?)?,
            Self::Uncontended(work) => to_value(work.run(&stage).await?)?,
            Self::Throughput(work) => to_value(work.run(&stage).await?)?,
            Self::Contention(work) => to_value(work.run(stage).await?)?,
            Self::HandOver(work) => to_value(work.run(stage).await?)?,
            Self::Leases(work) => to_value(work.run(stage).await?)?,
            Self::Hold(work) => to_value(work.run(stage).await?)?,
            Self::Wait(work) => to_value(work.run(stage).await?)?,
            Self::Failover(work) => to_value(work.run(&stage, url).await?)?,
            Self::Grants(work) => to_value(work.run(&stage).await?)?,
        })
    }
}

/// Names, and who is meant.
type Entrants = Vec<(&'static str, Contender)>;

/// Names, and why somebody does not take part.
type LeftOut = Vec<(&'static str, String)>;

/// Sorts the contenders by whether they can take part in a scenario.
fn entrants(check: impl Fn(Contender) -> Result<(), &'static str>) -> (Entrants, LeftOut) {
    let (mut entrants, mut left_out) = (Vec::new(), Vec::new());
    for &contender in Contender::all() {
        match check(contender) {
            Ok(()) => entrants.push((contender.name(), contender)),
            Err(reason) => left_out.push((contender.name(), reason.to_owned())),
        }
    }
    (entrants, left_out)
}
