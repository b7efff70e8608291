//! The running servers, clients, and proxies between them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::{Child, Proxy};
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::client::{Options, STOP};
use crate::faults::{Fault, PlannedFault};
use crate::history::{Event, Log};
use crate::inject::freeze;
use crate::observer::Observer;
use crate::resource::Resource;
use crate::topology::{Servers, Topology};
use crate::{CLIENTS, KEYS, TTL, millis};

/// Pause between two observations.
const POLL: Duration = millis(50);
/// The minimum time without faults; an orphaned key exceeds its maximum age within it.
const MIN_RECOVERY: Duration = millis(1_500);
/// How long a recovery waits for every lock to be granted again.
const MAX_RECOVERY: Duration = Duration::from_secs(12);

/// Everything that runs. A fault locks the parts that it affects until it is healed, so that later
/// faults of the same parts wait.
#[derive(Debug)]
pub(crate) struct Testbed {
    topology: Topology,
    servers: Mutex<Servers>,
    observer: Mutex<Observer>,
    /// One proxy per client of a single server; in other topologies, clients connect directly.
    proxies: Vec<Mutex<Proxy>>,
    clients: Vec<Mutex<Process>>,
    resource: Resource,
    log: Log,
    dir: PathBuf,
}

/// A client process and the options that started it.
#[derive(Debug)]
pub(crate) struct Process {
    options: Options,
    pub(crate) child: Child,
}

impl Process {
    fn start(options: Options) -> Self {
        Self { child: Child::spawn(&options.command()), options }
    }

    /// Kills the process and starts its successor.
    pub(crate) fn restart(&mut self) {
        self.child.kill();
        let Options { restarts, seed, .. } = self.options;
        let options = Options { restarts: restarts + 1, seed: seed + 1, ..self.options.clone() };
        *self = Self::start(options);
    }
}

impl Testbed {
    /// Starts all parts, which write the history to files in `dir`.
    pub(crate) async fn start(dir: &Path, seed: u64, topology: Topology, amnesia: bool) -> Self {
        let servers = Servers::start(topology, amnesia).await;
        let resource = Resource::start(dir, KEYS);
        let log = Log::create(dir, "faults");
        let proxies: Vec<Proxy> = match &servers {
            Servers::Single(server) => (0..CLIENTS).map(|_| Proxy::start(server.addr())).collect(),
            _ => Vec::new(),
        };
        let clients = (0..CLIENTS).map(|client| {
            let seed = fastrand::Rng::with_seed(seed ^ client as u64).u64(..u64::from(u32::MAX));
            let url = proxies.get(client).map_or_else(|| servers.url(), Proxy::url);
            let (replicas, dir) = (topology.replicas(), dir.to_owned());
            Mutex::new(Process::start(Options { url, replicas, dir, client, restarts: 0, seed }))
        });
        Self {
            topology,
            clients: clients.collect(),
            observer: Mutex::new(servers.observer()),
            servers: Mutex::new(servers),
            proxies: proxies.into_iter().map(Mutex::new).collect(),
            resource,
            log,
            dir: dir.to_owned(),
        }
    }

    /// Injects a fault and heals it, after waiting for earlier faults of the same parts.
    pub(crate) async fn inject(self: Arc<Self>, number: usize, planned: PlannedFault) {
        let PlannedFault { client, fault, .. } = planned;
        match fault {
            Fault::Process(fault) => {
                let mut process = self.clients[client].lock().await;
                self.record_fault(number, planned);
                fault.inject(&mut process).await;
            }
            Fault::Network(fault) => {
                let proxy = self.proxies[client].lock().await;
                self.record_fault(number, planned);
                fault.inject(&proxy).await;
            }
            Fault::Freeze(duration) => {
                let proxy = self.proxies[client].lock().await;
                let process = self.clients[client].lock().await;
                self.record_fault(number, planned);
                freeze(&proxy, &process, duration).await;
            }
            Fault::Server(fault) => {
                let mut servers = self.servers.lock().await;
                self.record_fault(number, planned);
                if let Servers::Single(server) = &mut *servers {
                    fault.inject(server).await;
                }
            }
            Fault::Group(selector, fault) => {
                let mut servers = self.servers.lock().await;
                self.record_fault(number, planned);
                servers.inject(selector, fault).await;
            }
        }
        self.log.record(Event::Healed { fault: number });
    }

    fn record_fault(&self, number: usize, planned: PlannedFault) {
        let PlannedFault { client, fault, .. } = planned;
        let what = if fault.hits_one_client() {
            format!("{fault:?} of client {client}")
        } else {
            format!("{fault:?}")
        };
        let of_server = self.topology.cannot_grant_during(fault);
        self.log.record(Event::Faulty { fault: number, what, of_server });
    }

    /// Pauses without faults until every lock has been granted again.
    pub(crate) async fn recover(&self) {
        let (began, before) = (Instant::now(), self.resource.accesses());
        let recovered =
            || self.resource.accesses().iter().zip(&before).all(|(now, then)| now > then);
        while began.elapsed() < MIN_RECOVERY || !recovered() && began.elapsed() < MAX_RECOVERY {
            sleep(POLL).await;
        }
    }

    /// Records the holders of all locks periodically.
    pub(crate) async fn observe(self: Arc<Self>) {
        loop {
            self.observer.lock().await.observe(&self.log).await;
            sleep(POLL).await;
        }
    }

    /// Stops the clients and records the keys that they leave behind.
    pub(crate) async fn stop(&self) {
        self.log.record(Event::Stopped);
        std::fs::write(self.dir.join(STOP), []).expect("failed to write the stop file");
        for client in &self.clients {
            let process = client.lock().await;
            let status = process.child.exited(Duration::from_secs(30)).await;
            assert!(status.success(), "a client failed:\n{}", process.child.lines().join("\n"));
        }
        sleep(TTL + millis(100)).await;
        self.log.record(Event::Over);
        let known = self.observer.lock().await.observe(&self.log).await;
        assert!(known, "the servers did not report the holders of all locks");
    }
}
