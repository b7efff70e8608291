//! m: how long nothing is granted after the death of a master.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::future::join3;
use harness::{Cluster, Sentinels, Server};
use lock_runtime::{LockError, LockGuard, LockManager};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::bench::{Bench, pass, pin};
use crate::contenders::{Contender, Terms, connect_by_hand};
use crate::rounds::{Metric, Sample, Section};
use crate::worker::Stage;

const METRICS: &[Metric] = &[
    Metric::plain("without a write", "ms"),
    Metric::plain("without a grant", "ms"),
    Metric::plain("beyond the write", "ms"),
    Metric::plain("waiter without a grant", "ms"),
    Metric::plain("waiter beyond the write", "ms"),
];

/// Pause before each attempt.
const PAUSE: Duration = Duration::from_millis(2);

/// How long a failover takes at least: a master is down after a second.
const LEAST: Duration = Duration::from_millis(500);

/// What all keys are named after, so that a cluster keeps them on one server.
const ACCOUNT: &str = "account-17";

/// What keeps the locks.
#[derive(Debug, Clone, Copy)]
enum Topology {
    Sentinel,
    Cluster,
}

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let about = format!(
        "The master is killed. A process asks for a free lock every {PAUSE:?}, once without waiting and \
         once with a minute to wait (the waiter), and writes a plain value by hand to the server that a sentinel \
         names, or to whichever server of the cluster takes it: the time between the last success \
         before and the first one after. Sentinels and servers hold a master for dead after a second. \
         What is beyond the time without a write is the lock's own."
    );
    let subjects = [("Sentinel", Topology::Sentinel), ("Cluster", Topology::Cluster)];
    Section::new("m-failover", "m. Death of a master", about, METRICS, &[])
        .measure(bench, &subjects, async |topology, _| topology.lose_master(bench).await)
        .await
}

impl Topology {
    /// Starts servers and kills a master of them.
    async fn lose_master(self, bench: &Bench) -> Result<Sample> {
        match self {
            Self::Sentinel => {
                let service = "locks";
                let sentinels = Sentinels::start(service).await;
                pin(sentinels.servers().iter().chain(sentinels.sentinels())).await?;
                let work = Work::new(sentinels.sentinels(), Some(service));
                work.watch(bench, &sentinels.url(), sentinels.master().await).await
            }
            Self::Cluster => {
                let cluster = Cluster::start().await;
                pin(cluster.nodes()).await?;
                let owner = cluster.owner(&key("write")).await;
                let work = Work::new(cluster.nodes(), None);
                work.watch(bench, &cluster.url(), &cluster.nodes()[owner]).await
            }
        }
    }
}

/// Takes locks, and writes, until there has been an outage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    /// Whom to ask.
    hosts: Vec<SocketAddr>,
    /// What to ask sentinels for.
    service: Option<String>,
}

/// How long each went without a success.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    writes: Duration,
    tries: Duration,
    waits: Duration,
}

impl Work {
    fn new(hosts: &[Server], service: Option<&str>) -> Self {
        let hosts = hosts.iter().map(Server::addr).collect();
        Self { hosts, service: service.map(str::to_owned) }
    }

    /// Kills the master while it is being done.
    async fn watch(self, bench: &Bench, url: &str, master: &Server) -> Result<Sample> {
        let works = vec![super::Work::Failover(self)];
        let fleet = bench.fleet_at(url, Contender::This, Terms::default(), works).await?;
        fleet.open()?;
        pass(LEAST).await;
        master.kill();
        let results = fleet.results().await?;
        let [Outcome { writes, tries, waits }] = results[..] else { bail!("one worker reports") };
        let [writes, tries, waits] = [writes, tries, waits].map(|it| it.as_secs_f64() * 1e3);
        Ok(vec![writes, tries, tries - writes, waits, waits - writes])
    }

    pub(super) async fn run(self, stage: &Stage, url: &str) -> Result<Outcome> {
        let locks = LockManager::connect(url).await?;
        let lock = |what| locks.lock(key(what)).ttl(Terms::default().ttl);
        let mut by_hand = Writer { work: self, connection: None };
        stage.begin().await?;
        let (writes, tries, waits) = join3(
            outage(async || by_hand.write().await),
            outage(async || granted(lock("try").await).await),
            outage(async || granted(lock("wait").wait(Duration::from_mins(1)).await).await),
        )
        .await;
        Ok(Outcome { writes, tries, waits })
    }
}

/// Repeats an attempt that tells when it has succeeded, until it has not for long and does again: how long
/// that was.
async fn outage(mut attempt: impl AsyncFnMut() -> Option<Instant>) -> Duration {
    let mut last = Instant::now();
    loop {
        if let Some(success) = attempt().await {
            if success - last > LEAST {
                return success - last;
            }
            last = success;
        }
        sleep(PAUSE).await;
    }
}

/// When a lock was granted, which is then released.
async fn granted(answer: Result<LockGuard, LockError>) -> Option<Instant> {
    let guard = answer.ok()?;
    let granted = Instant::now();
    // Where it cannot be released now, that is tried again in the background.
    let _ = guard.release().await;
    Some(granted)
}

/// Writes to the master, whichever server that is.
struct Writer {
    work: Work,
    /// To where it was found last.
    connection: Option<MultiplexedConnection>,
}

impl Writer {
    /// Tells when it has, unless it could not.
    async fn write(&mut self) -> Option<Instant> {
        if let Some(connection) = &mut self.connection {
            if write(connection).await.is_ok() {
                return Some(Instant::now());
            }
            self.connection = None;
        }
        for &host in &self.work.hosts {
            if let Ok(connection) = self.write_by(host).await {
                self.connection = Some(connection);
                return Some(Instant::now());
            }
        }
        None
    }

    /// Writes to a server, or to the one that a sentinel names.
    async fn write_by(&self, host: SocketAddr) -> Result<MultiplexedConnection> {
        let mut connection = connect_by_hand(&format!("redis://{host}")).await?;
        if let Some(service) = &self.work.service {
            let mut question = redis::cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
            let (host, port): (String, u16) = question.query_async(&mut connection).await?;
            connection = connect_by_hand(&format!("redis://{host}:{port}")).await?;
        }
        write(&mut connection).await?;
        Ok(connection)
    }
}

async fn write(connection: &mut MultiplexedConnection) -> Result<()> {
    Ok(redis::cmd("SET").arg(key("write")).arg("").exec_async(connection).await?)
}

fn key(what: &str) -> String {
    format!("{{{ACCOUNT}}}:{what}")
}
