//! The server, the clients, and what stands between them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::{Child, Proxy, Server};
use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::client::{Options, STOP};
use crate::faults::{Fault, Planned};
use crate::history::{Event, Holder, Log, now};
use crate::inject::freeze;
use crate::resource::Resource;
use crate::{CLIENTS, KEYS, TTL, millis, name};

/// Pause between two looks at the keys.
const LOOK: Duration = millis(50);
/// The least time without faults: an orphan is older by then than any may be.
const REST: Duration = millis(1_500);
/// How long to wait for a sign of life of every lock.
const REVIVAL: Duration = Duration::from_secs(12);

/// Everything that runs. What a fault concerns is locked while it lasts, so that others wait.
#[derive(Debug)]
pub(crate) struct Arena {
    server: Mutex<Server>,
    clients: Vec<Client>,
    resource: Resource,
    log: Log,
    dir: PathBuf,
}

#[derive(Debug)]
struct Client {
    network: Mutex<Proxy>,
    process: Mutex<Process>,
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
    pub(crate) async fn start(dir: &Path, seed: u64, amnesia: bool) -> Self {
        let server = Server::builder()
            .config(if amnesia { "appendonly no" } else { "appendonly yes" })
            .config("appendfsync always")
            .config("auto-aof-rewrite-percentage 0")
            .config("busy-reply-threshold 100")
            .config("enable-debug-command local")
            .start()
            .await;
        let resource = Resource::start(dir, KEYS);
        let log = Log::create(dir, "faults");
        let clients = (0..CLIENTS).map(|client| {
            let network = Proxy::start(server.addr());
            let seed = fastrand::Rng::with_seed(seed ^ client as u64).u64(..u64::from(u32::MAX));
            let (url, dir) = (network.url(), dir.to_owned());
            let process = Process::start(Options { url, dir, client, life: 0, seed });
            Client { network: Mutex::new(network), process: Mutex::new(process) }
        });
        let clients = clients.collect();
        Self { server: Mutex::new(server), clients, resource, log, dir: dir.to_owned() }
    }

    /// Makes a fault and heals it, as soon as the one before has been healed in the same place.
    pub(crate) async fn inject(self: Arc<Self>, number: usize, planned: Planned) {
        let Planned { client, fault, .. } = planned;
        let client = &self.clients[client];
        match fault {
            Fault::Process(cause) => {
                let mut process = client.process.lock().await;
                self.faulty(number, planned);
                cause.inject(&mut process).await;
            }
            Fault::Network(cause) => {
                let proxy = client.network.lock().await;
                self.faulty(number, planned);
                cause.inject(&proxy).await;
            }
            Fault::Freeze(duration) => {
                let (proxy, process) = (client.network.lock().await, client.process.lock().await);
                self.faulty(number, planned);
                freeze(&proxy, &process, duration).await;
            }
            Fault::Server(cause) => {
                let mut server = self.server.lock().await;
                self.faulty(number, planned);
                cause.inject(&mut server).await;
            }
        }
        self.log.note(Event::Healed { fault: number });
    }

    fn faulty(&self, fault: usize, planned: Planned) {
        let Planned { client, fault: cause, .. } = planned;
        let of_server = cause.is_of_server();
        let what =
            if of_server { format!("{cause:?}") } else { format!("{cause:?} of client {client}") };
        self.log.note(Event::Faulty { fault, what, of_server });
    }

    /// A moment without faults, until each lock was granted again.
    pub(crate) async fn rest(&self) {
        let (began, before) = (Instant::now(), self.resource.accesses());
        let revived = || self.resource.accesses().iter().zip(&before).all(|(now, then)| now > then);
        while began.elapsed() < REST || !revived() && began.elapsed() < REVIVAL {
            sleep(LOOK).await;
        }
    }

    /// Looks at the keys again and again, whenever the server answers.
    pub(crate) async fn watch(self: Arc<Self>) {
        let url = self.server.lock().await.url();
        let server = redis::Client::open(url).expect("the URL is valid");
        loop {
            if let Ok(mut redis) = server.get_multiplexed_async_connection().await {
                while self.look(&mut redis).await.is_ok() {
                    sleep(LOOK).await;
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Notes who holds the locks, as the server says.
    async fn look(&self, redis: &mut MultiplexedConnection) -> RedisResult<()> {
        let mut questions = redis::pipe();
        questions.atomic();
        for key in 0..KEYS {
            questions.cmd("GET").arg(name(key)).cmd("PTTL").arg(name(key));
        }
        let sent = now();
        let answers: Vec<(Option<String>, i64)> = questions.query_async(redis).await?;
        let at = now();
        for (key, (token, left)) in answers.into_iter().enumerate() {
            let left = left.try_into().ok().map(millis);
            let holder = token.map(|token| Holder { token, left });
            self.log.note_at(at, Event::Seen { sent, key, holder });
        }
        Ok(())
    }

    /// Has the clients end, and looks at what they leave.
    pub(crate) async fn stop(&self) {
        self.log.note(Event::Stopped);
        std::fs::write(self.dir.join(STOP), []).expect("the folder can be written to");
        for client in &self.clients {
            let process = client.process.lock().await;
            let status = process.child.exited(Duration::from_secs(30)).await;
            assert!(status.success(), "a client has failed:\n{}", process.child.lines().join("\n"));
        }
        sleep(TTL + millis(100)).await;
        self.log.note(Event::Over);
        let mut redis = self.server.lock().await.connection().await;
        self.look(&mut redis).await.expect("the server answers");
    }
}
