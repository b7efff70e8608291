//! m: the time without a grant after the death of a master.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::join3;
use harness::{Cluster, Sentinels, Server};
use lock_runtime::{LockError, LockGuard, LockManager};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::bench::{Bench, pin};
use crate::contenders::{Contender, Settings, connect_raw};
use crate::rounds::{Metric, Sample, Section};
use crate::worker::Worker;

const METRICS: &[Metric] = &[
    Metric::plain("without a write", "ms"),
    Metric::plain("without a grant", "ms"),
    Metric::plain("beyond the write", "ms"),
    Metric::plain("waiter without a grant", "ms"),
    Metric::plain("waiter beyond the write", "ms"),
];

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(2);

/// Minimum length of an outage: a master is considered down after a second.
const MIN_OUTAGE: Duration = Duration::from_millis(500);

/// Hash tag of all keys, so that a cluster stores them on one server.
const HASH_TAG: &str = "account-17";

/// The servers that keep the locks.
#[derive(Debug, Clone, Copy)]
enum Topology {
    Sentinel,
    Cluster,
}

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let description = format!(
        "The master is killed. A process requests free locks every {PAUSE:?}, one without a wait \
         and one with a wait of a minute (the waiter), and writes a plain value by hand to the \
         server that a sentinel names, or to the server of the cluster that accepts it. The times \
         are those between the last success before the kill and the first one after it. Sentinels \
         and servers consider a master down after a second. The time beyond that without a write \
         is due to the lock itself."
    );
    let subjects = [("Sentinel", Topology::Sentinel), ("Cluster", Topology::Cluster)];
    Section::new("m-failover", "m. Death of a master", description, METRICS, &[])
        .measure(bench, &subjects, async |topology, _| topology.lose_master(bench).await)
        .await
}

impl Topology {
    /// Starts servers, kills a master and returns the outages.
    async fn lose_master(self, bench: &Bench) -> Result<Sample> {
        match self {
            Self::Sentinel => {
                let service = "locks";
                let sentinels = Sentinels::start(service).await;
                pin(sentinels.servers().iter().chain(sentinels.sentinels())).await?;
                let workload = Workload::new(sentinels.sentinels(), Some(service));
                workload.measure(bench, &sentinels.url(), sentinels.master().await).await
            }
            Self::Cluster => {
                let cluster = Cluster::start().await;
                pin(cluster.nodes()).await?;
                let owner = cluster.owner(&key("write")).await;
                let workload = Workload::new(cluster.nodes(), None);
                workload.measure(bench, &cluster.url(), &cluster.nodes()[owner]).await
            }
        }
    }
}

/// Takes locks and writes until an outage has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    /// The sentinels, or the nodes of the cluster.
    hosts: Vec<SocketAddr>,
    /// The service name for sentinels.
    service: Option<String>,
}

/// The outages of plain writes, of acquires without a wait, and of waiters.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    writes: Duration,
    tries: Duration,
    waits: Duration,
}

impl Workload {
    fn new(hosts: &[Server], service: Option<&str>) -> Self {
        let hosts = hosts.iter().map(Server::addr).collect();
        Self { hosts, service: service.map(str::to_owned) }
    }

    /// Kills the master while a worker runs the workload.
    async fn measure(self, bench: &Bench, url: &str, master: &Server) -> Result<Sample> {
        let workloads = vec![super::Workload::Failover(self)];
        let workers =
            bench.start_workers_at(url, Contender::This, Settings::default(), workloads).await?;
        workers.start()?;
        sleep(MIN_OUTAGE).await;
        master.kill();
        let [Outcome { writes, tries, waits }] = workers.results().await?;
        let [writes, tries, waits] = [writes, tries, waits].map(|time| time.as_secs_f64() * 1e3);
        Ok(vec![writes, tries, tries - writes, waits, waits - writes])
    }

    pub(super) async fn run(self, worker: &Worker, url: &str) -> Result<Outcome> {
        let locks = LockManager::connect(url).await?;
        let lock = |name| locks.lock(key(name)).ttl(Settings::default().ttl);
        let mut master = MasterWriter { workload: self, connection: None };
        worker.begin().await?;
        let (writes, tries, waits) = join3(
            outage(async || master.write().await),
            outage(async || granted(lock("try").await).await),
            outage(async || granted(lock("wait").wait(Duration::from_mins(1)).await).await),
        )
        .await;
        Ok(Outcome { writes, tries, waits })
    }
}

/// Repeats an attempt, which returns the time of its success, until the end of an outage, and
/// returns the length of the outage.
async fn outage(mut attempt: impl AsyncFnMut() -> Option<Instant>) -> Duration {
    let mut last = Instant::now();
    loop {
        if let Some(success) = attempt().await {
            if success - last > MIN_OUTAGE {
                return success - last;
            }
            last = success;
        }
        sleep(PAUSE).await;
    }
}

/// Returns the time of a grant, and releases the lock.
async fn granted(result: Result<LockGuard, LockError>) -> Option<Instant> {
    let guard = result.ok()?;
    let granted = Instant::now();
    // A failed release is retried in the background.
    let _ = guard.release().await;
    Some(granted)
}

/// Writes to the current master.
struct MasterWriter {
    workload: Workload,
    /// The connection to the last known master.
    connection: Option<MultiplexedConnection>,
}

impl MasterWriter {
    /// Returns the time of a successful write.
    async fn write(&mut self) -> Option<Instant> {
        if let Some(connection) = &mut self.connection {
            if write(connection).await.is_ok() {
                return Some(Instant::now());
            }
            self.connection = None;
        }
        for &host in &self.workload.hosts {
            if let Ok(connection) = self.write_via(host).await {
                self.connection = Some(connection);
                return Some(Instant::now());
            }
        }
        None
    }

    /// Writes to the server `host`, or to the master that the sentinel `host` names.
    async fn write_via(&self, host: SocketAddr) -> Result<MultiplexedConnection> {
        let mut connection = connect_raw(&format!("redis://{host}")).await?;
        if let Some(service) = &self.workload.service {
            let mut get_master = redis::cmd("SENTINEL");
            get_master.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
            let (host, port): (String, u16) = get_master.query_async(&mut connection).await?;
            connection = connect_raw(&format!("redis://{host}:{port}")).await?;
        }
        write(&mut connection).await?;
        Ok(connection)
    }
}

async fn write(connection: &mut MultiplexedConnection) -> Result<()> {
    Ok(redis::cmd("SET").arg(key("write")).arg("").exec_async(connection).await?)
}

fn key(name: &str) -> String {
    format!("{{{HASH_TAG}}}:{name}")
}
