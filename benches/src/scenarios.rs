//! The scenarios. Each has two parts: `run` in the measuring process, and `Workload` in the
//! measured processes.

mod compile_time;
mod contention;
mod delayed_servers;
mod failover;
mod grants;
mod handover;
mod instructions;
mod leases;
mod many_waiters;
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
use crate::worker::Worker;

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
    /// Time from a release to the next body in another process
    #[value(name = "e")]
    HandOver,
    /// 1,000 and 10,000 held leases
    #[value(name = "f")]
    Leases,
    /// 1,000 waiters for one key
    #[value(name = "g")]
    ManyWaiters,
    /// Compile time of 200 functions
    #[value(name = "h")]
    CompileTime,
    /// Instructions of a client, counted by valgrind
    #[value(name = "i")]
    Instructions,
    /// Latency with Sentinel
    #[value(name = "j")]
    Sentinel,
    /// Latency in a cluster
    #[value(name = "k")]
    Cluster,
    /// Latency with five independent servers
    #[value(name = "l")]
    Redlock,
    /// Time without a grant after the death of a master
    #[value(name = "m")]
    Failover,
    /// Cost of replicas per grant, and round trips of a grant
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
            Self::ManyWaiters => vec![many_waiters::run(bench).await?],
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

/// The workload of one worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Workload {
    Ping(ping::Workload),
    Uncontended(uncontended::Workload),
    Throughput(throughput::Workload),
    Contention(contention::Workload),
    HandOver(handover::Workload),
    Leases(leases::Workload),
    Hold(many_waiters::Hold),
    Wait(many_waiters::Wait),
    Failover(failover::Workload),
    Grants(grants::Workload),
}

impl Workload {
    pub(crate) async fn run(self, worker: Arc<Worker>, url: &str) -> Result<Value> {
        Ok(match self {
            Self::Ping(workload) => to_value(workload.run(&worker, url).await?)?,
            Self::Uncontended(workload) => to_value(workload.run(&worker).await?)?,
            Self::Throughput(workload) => to_value(workload.run(&worker).await?)?,
            Self::Contention(workload) => to_value(workload.run(worker).await?)?,
            Self::HandOver(workload) => to_value(workload.run(worker).await?)?,
            Self::Leases(workload) => to_value(workload.run(worker).await?)?,
            Self::Hold(workload) => to_value(workload.run(worker).await?)?,
            Self::Wait(workload) => to_value(workload.run(worker).await?)?,
            Self::Failover(workload) => to_value(workload.run(&worker, url).await?)?,
            Self::Grants(workload) => to_value(workload.run(&worker).await?)?,
        })
    }
}

/// Names and contenders.
type Participants = Vec<(&'static str, Contender)>;

/// Names of contenders that are not measured, and the reasons.
type Excluded = Vec<(&'static str, String)>;

/// Partitions the contenders by whether they support a scenario.
fn participants(check: impl Fn(Contender) -> Result<(), &'static str>) -> (Participants, Excluded) {
    let (mut participants, mut excluded) = (Vec::new(), Vec::new());
    for &contender in Contender::all() {
        match check(contender) {
            Ok(()) => participants.push((contender.name(), contender)),
            Err(reason) => excluded.push((contender.name(), reason.to_owned())),
        }
    }
    (participants, excluded)
}
