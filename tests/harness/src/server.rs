//! A Redis server for one test.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, FromRedisValue, RedisResult, TlsCertificates,
};
use tempfile::TempDir;

use crate::command::command;
use crate::url::url;
use crate::{Certificates, Child, CommandLog, Network, Node, eventually, port};

const CONFIG: &str = "redis.conf";
const READY: &str = "Ready to accept connections";
const SENTINEL_READY: &str = "Sentinel ID is";
const TAKEN: &str = "Address already in use";
const LIMIT: Duration = Duration::from_secs(30);

/// A running `redis-server` with its own port and folder, stopped and deleted on drop.
///
/// The program is the one that the environment variable `REDIS_SERVER` names, or the one on the
/// `PATH`. It listens on the loopback address, or on that of its [`Node`], and persists nothing
/// unless configured to.
#[derive(Debug)]
pub struct Server {
    command: Command,
    child: Child,
    addr: SocketAddr,
    dir: TempDir,
    password: Option<String>,
    certificates: Option<Certificates>,
    /// The line that it prints once it accepts requests.
    ready: &'static str,
    node: Option<Node>,
}

/// The settings of a [`Server`].
#[derive(Debug, Default)]
#[must_use = "nothing runs before `start`"]
pub struct ServerBuilder {
    command: Option<Command>,
    config: String,
    password: Option<String>,
    certificates: Option<Certificates>,
    is_sentinel: bool,
    node: Option<Node>,
}

impl Server {
    /// Starts a server with default settings.
    ///
    /// # Panics
    ///
    /// As [`ServerBuilder::start`].
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Returns a builder for a server with other settings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the port of [`addr`](Self::addr).
    #[must_use]
    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// Returns the URL to connect to, with the password if there is one.
    ///
    /// It has no path: `format!("{url}/3")` is the URL of database 3.
    #[must_use]
    pub fn url(&self) -> String {
        let login = self.password.as_deref().map(|password| ("", password));
        url(self.scheme(), self.addr, login)
    }

    /// Returns the URL with other credentials, right or wrong.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        url(self.scheme(), self.addr, Some((user, password)))
    }

    /// Returns the scheme of its [`url`](Self::url).
    pub(crate) fn scheme(&self) -> &'static str {
        if self.certificates.is_some() { "rediss" } else { "redis" }
    }

    /// Returns a client for the test itself.
    pub(crate) fn client(&self) -> RedisResult<Client> {
        let Some(certificates) = &self.certificates else { return Client::open(self.url()) };
        let (client_cert, client_key) = certificates.client();
        let client_tls = Some(ClientTlsConfig { client_cert, client_key });
        let root_cert = Some(certificates.root());
        Client::build_with_tls(self.url(), TlsCertificates { client_tls, root_cert })
    }

    /// Returns the folder of its files, such as a Unix socket with a relative name.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the node that it runs on.
    ///
    /// # Panics
    ///
    /// If it is not in a [`Network`].
    #[must_use]
    pub fn node(&self) -> &Node {
        self.node.as_ref().expect("the server runs on a node")
    }

    /// Opens a connection for the test itself, with long timeouts for a slow server.
    ///
    /// # Panics
    ///
    /// If the server does not reply.
    pub async fn connection(&self) -> MultiplexedConnection {
        self.try_connection().await.expect("the server replies")
    }

    pub(crate) async fn try_connection(&self) -> RedisResult<MultiplexedConnection> {
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(10)))
            .set_response_timeout(Some(Duration::from_secs(10)));
        self.client()?.get_multiplexed_async_connection_with_config(&patient).await
    }

    /// Returns the reply to a command whose arguments contain no spaces.
    pub(crate) async fn try_query<T: FromRedisValue>(&self, line: &str) -> RedisResult<T> {
        command(line).query_async(&mut self.try_connection().await?).await
    }

    /// Waits until this many replicas have acknowledged every write of this server.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub async fn wait_for_replicas(&self, replicas: usize) {
        eventually("the replicas are up to date", LIMIT, async || {
            self.is_replicated(replicas).await
        })
        .await;
    }

    /// Returns whether this many replicas have acknowledged every write of this server.
    ///
    /// `WAIT` is sent twice: a replica is "online" before it acknowledges anything, and it may
    /// acknowledge its copy of the data a second before it receives further writes.
    pub(crate) async fn is_replicated(&self, replicas: usize) -> bool {
        let Ok(mut connection) = self.try_connection().await else { return false };
        let mut written = redis::pipe();
        for _ in 0..2 {
            written.cmd("FUNCTION").arg("FLUSH").ignore(); // a write that needs no key
            written.cmd("WAIT").arg(replicas).arg(1_000);
        }
        let acknowledged = written.query_async::<[usize; 2]>(&mut connection).await;
        acknowledged.is_ok_and(|counts| counts.iter().all(|count| *count >= replicas))
    }

    /// Starts to record every command that the server runs.
    ///
    /// # Panics
    ///
    /// If the server does not reply.
    #[must_use]
    pub fn log(&self) -> CommandLog {
        CommandLog::start(self.addr, self.password.as_deref())
    }

    /// Stops the process with `SIGSTOP`; the kernel still accepts connections and bytes for it.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn pause(&self) {
        self.child.pause();
    }

    /// Continues the process after [`pause`](Self::pause).
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn resume(&self) {
        self.child.resume();
    }

    /// Kills the process and waits for its end; afterwards nothing listens on the port.
    ///
    /// # Panics
    ///
    /// If the process cannot be killed.
    pub fn kill(&self) {
        self.child.kill();
    }

    /// Starts the server again with the same port, folder and settings, killing it first if needed.
    ///
    /// Returns when it is ready, which is after it has loaded its data from disk.
    ///
    /// # Panics
    ///
    /// If it does not start, for example because the port is in use by now.
    pub async fn restart(&mut self) {
        self.kill();
        self.child = launch(&self.command, self.ready)
            .await
            .unwrap_or_else(|output| panic!("{} does not restart:\n{output}", self.addr));
    }
}

impl ServerBuilder {
    /// Sets the program to start, which must understand the same configuration file.
    pub fn command(mut self, command: Command) -> Self {
        self.command = Some(command);
        self
    }

    /// Accepts TLS connections only, from clients with a certificate.
    pub fn tls(mut self, certificates: &Certificates) -> Self {
        self.certificates = Some(certificates.clone());
        self
    }

    /// Runs the server on a node of a network.
    pub fn node(mut self, node: &Node) -> Self {
        self.node = Some(node.clone());
        self
    }

    /// Runs the server on a new node of `network`, if there is one.
    pub(crate) async fn within(self, network: Option<&Network>) -> Self {
        match network {
            Some(network) => self.node(&network.node().await),
            None => self,
        }
    }

    /// Starts a sentinel.
    pub(crate) fn sentinel(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Adds a line to the configuration file, such as `maxclients 5`.
    pub fn config(mut self, line: &str) -> Self {
        self.config.push_str(line);
        self.config.push('\n');
        self
    }

    /// Sets the password of the default user.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.config(&format!("requirepass {password}"))
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If `redis-server` is not installed or rejects its configuration.
    pub async fn start(mut self) -> Server {
        let dir = TempDir::with_prefix("redis-").expect("a folder can be created");
        let mut command = self.command.take().unwrap_or_else(redis_server);
        if let Some(node) = &self.node {
            command = node.command(&command);
        }
        command.arg(dir.path().join(CONFIG)).args(self.is_sentinel.then_some("--sentinel"));
        let ready = if self.is_sentinel { SENTINEL_READY } else { READY };
        let mut retries = 0..10;
        loop {
            let addr = match &self.node {
                Some(node) => SocketAddr::new(node.ip().into(), port::any()),
                None => port::free(),
            };
            let config = self.config_file(addr, dir.path());
            fs::write(dir.path().join(CONFIG), config).expect("the folder is writable");
            match launch(&command, ready).await {
                Ok(child) => {
                    let Self { password, certificates, node, .. } = self;
                    return Server {
                        command,
                        child,
                        addr,
                        dir,
                        password,
                        certificates,
                        ready,
                        node,
                    };
                }
                // Another process has taken the port, and the server has ended.
                Err(output) if output.contains(TAKEN) && retries.next().is_some() => {}
                Err(output) => panic!("the server does not start:\n{output}"),
            }
        }
    }

    fn config_file(&self, addr: SocketAddr, dir: &Path) -> String {
        let (host, dir, config) = (addr.ip(), dir.display(), &self.config);
        let port = match &self.certificates {
            Some(certificates) => certificates.config(addr.port()),
            None => format!("port {}\n", addr.port()),
        };
        let save = if self.is_sentinel { "" } else { "save \"\"\n" };
        format!("bind {host}\nprotected-mode no\n{port}dir \"{dir}\"\n{save}{config}")
    }
}

/// Starts a server and returns it once it is ready, or its output if it is not.
///
/// Readiness is read from its own output, so another process on the same port is never mistaken for
/// it.
async fn launch(command: &Command, ready: &str) -> Result<Child, String> {
    let child = Child::spawn(command);
    match child.find_line(ready, LIMIT).await {
        Some(_) => Ok(child),
        None => Err(child.lines().join("\n")),
    }
}

fn redis_server() -> Command {
    assert!(
        *INSTALLED,
        "cannot run `{}`: install Redis 7 or later (Debian: `apt install redis-server`, macOS: \
         `brew install redis`), or name the program in REDIS_SERVER",
        program().display(),
    );
    Command::new(program())
}

fn program() -> OsString {
    env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

static INSTALLED: LazyLock<bool> = LazyLock::new(|| {
    let mut version = Command::new(program());
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok()
});

#[cfg(test)]
mod tests;
