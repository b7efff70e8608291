//! The servers, the clients, and what stands between them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::{Child, Proxy};
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::client::{Options, STOP};
use crate::faults::{Fault, Planned};
use crate::history::{Event, Log};
use crate::inject::freeze;
use crate::look::Witnesses;
use crate::resource::Resource;
use crate::topology::{Servers, Topology};
use crate::{CLIENTS, KEYS, TTL, millis};

/// Pause between two looks at the keys.
const LOOK: Duration = millis(50);
/// The least time without faults: an orphan is older by then than any may be.
const REST: Duration = millis(1_500);
/// How long to wait for a sign of life of every lock.
const REVIVAL: Duration = Duration::from_secs(12);

/// Everything that runs. What a fault concerns is locked while it lasts, so that others wait.
#[derive(Debug)]
pub(crate) struct Arena {
    topology: Topology,
    servers: Mutex<Servers>,
    witnesses: Mutex<Witnesses>,
    /// One for each client of a single server; servers of which there are several are reached directly.
    networks: Vec<Mutex<Proxy>>,
    clients: Vec<Mutex<Process>>,
    resource: Resource,
    log: Log,
    dir: PathBuf,
}

/// The process of a client, and how it was started.
#[derive(Debug)]
pub(crate) struct Process {
    options: Options,
    pub(crate) child: Child,
}

impl Process {
    fn start(options: Options) -> Self {
        Self { child: Child::spawn(&options.command()), options }
    }

    /// Kills it and starts another one.
    pub(crate) fn restart(&mut self) {
        self.child.kill();
        let Options { life, seed, .. } = self.options;
        *self = Self::start(Options { life: life + 1, seed: seed + 1, ..self.options.clone() });
    }
}

impl Arena {
    /// Starts everything; the history goes to files in `dir`.
    pub(crate) async fn start(dir: &Path, seed: u64, topology: Topology, amnesia: bool) -> Self {
        let servers = Servers::start(topology, amnesia).await;
        let resource = Resource::start(dir, KEYS);
        let log = Log::create(dir, "faults");
        let networks: Vec<Proxy> = match &servers {
            Servers::One(server) => (0..CLIENTS).map(|_| Proxy::start(server.addr())).collect(),
            _ => Vec::new(),
        };
        let clients = (0..CLIENTS).map(|client| {
            let seed = fastrand::Rng::with_seed(seed ^ client as u64).u64(..u64::from(u32::MAX));
            let url = networks.get(client).map_or_else(|| servers.url(), Proxy::url);
            let (replicas, dir) = (topology.replicas(), dir.to_owned());
            Mutex::new(Process::start(Options { url, replicas, dir, client, life: 0, seed }))
        });
        Self {
            topology,
            clients: clients.collect(),
            witnesses: Mutex::new(servers.witnesses()),
            servers: Mutex::new(servers),
            networks: networks.into_iter().map(Mutex::new).collect(),
            resource,
            log,
            dir: dir.to_owned(),
        }
    }

    /// Makes a fault and heals it, as soon as the one before has been healed in the same place.
    pub(crate) async fn inject(self: Arc<Self>, number: usize, planned: Planned) {
        let Planned { client, fault, .. } = planned;
        match fault {
            Fault::Process(cause) => {
                let mut process = self.clients[client].lock().await;
                self.faulty(number, planned);
                cause.inject(&mut process).await;
            }
            Fault::Network(cause) => {
                let proxy = self.networks[client].lock().await;
                self.faulty(number, planned);
                cause.inject(&proxy).await;
            }
            Fault::Freeze(duration) => {
                let proxy = self.networks[client].lock().await;
                let process = self.clients[client].lock().await;
                self.faulty(number, planned);
                freeze(&proxy, &process, duration).await;
            }
            Fault::Server(cause) => {
                let mut servers = self.servers.lock().await;
                self.faulty(number, planned);
                if let Servers::One(server) = &mut *servers {
                    cause.inject(server).await;
                }
            }
            Fault::Group(which, cause) => {
                let mut servers = self.servers.lock().await;
                self.faulty(number, planned);
                servers.inject(which, cause).await;
            }
        }
        self.log.note(Event::Healed { fault: number });
    }

    fn faulty(&self, fault: usize, planned: Planned) {
        let Planned { client, fault: cause, .. } = planned;
        let what = if cause.is_of_client() {
            format!("{cause:?} of client {client}")
        } else {
            format!("{cause:?}")
        };
        self.log.note(Event::Faulty { fault, what, of_server: self.topology.is_down_by(cause) });
    }

    /// A moment without faults, until each lock was granted again.
    pub(crate) async fn rest(&self) {
        let (began, before) = (Instant::now(), self.resource.accesses());
        let revived = || self.resource.accesses().iter().zip(&before).all(|(now, then)| now > then);
        while began.elapsed() < REST || !revived() && began.elapsed() < REVIVAL {
            sleep(LOOK).await;
        }
    }

    /// Looks at the keys again and again, whenever the servers answer.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            self.witnesses.lock().await.look(&self.log).await;
            sleep(LOOK).await;
        }
    }

    /// Has the clients end, and looks at what they leave.
    pub(crate) async fn stop(&self) {
        self.log.note(Event::Stopped);
        std::fs::write(self.dir.join(STOP), []).expect("the folder can be written to");
        for client in &self.clients {
            let process = client.lock().await;
            let status = process.child.exited(Duration::from_secs(30)).await;
            assert!(status.success(), "a client has failed:\n{}", process.child.lines().join("\n"));
        }
        sleep(TTL + millis(100)).await;
        self.log.note(Event::Over);
        let known = self.witnesses.lock().await.look(&self.log).await;
        assert!(known, "it is not known what the servers keep");
    }
}
