//! [`LockManager`]: connecting, the installed manager, shutdown.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{LockError, Step};
use crate::lease::watchdog::Watchdog;
use crate::store::memory::MemoryStore;
#[cfg(feature = "redis")]
use crate::store::redis;
use crate::store::url::{self, Options};
use crate::store::{Store, StoreError};
use crate::sync::lock;

/// How long connecting, or waiting for a reply, may take by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// The manager of locked functions that do not name one.
static INSTALLED: Mutex<Option<LockManager>> = Mutex::new(None);

/// Takes locks in one store, and keeps held locks alive.
///
/// Cheap to clone; all clones share the store's connections and one background thread. A manager
/// works from several Tokio runtimes, one after the other or side by side.
///
/// ```
/// use lock_runtime::{LockError, LockManager};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let manager = LockManager::connect("memory://").await?;
/// let guard = manager.lock("report:daily").await?;
/// assert!(manager.lock("report:daily").await.is_err());
/// guard.release().await
/// # }
/// ```
#[derive(Clone)]
pub struct LockManager(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    store_name: Arc<str>,
    watchdog: Watchdog,
    timeout: Duration,
    closed: AtomicBool,
}

impl LockManager {
    /// Connects to the store at `endpoint`, with the default options of a [`Builder`].
    ///
    /// | URL | store |
    /// | --- | --- |
    /// | `redis://[user:password@]host[:port][/database]` | Redis or Valkey |
    /// | `rediss://…` | the same over TLS, with the feature `tls` |
    /// | `redis+unix:///path/to/socket[?db=1]` | the same over a Unix socket |
    /// | `redis-sentinel://[user:password@]host[:port],…/service[/database]` | the master that these sentinels name; `rediss-sentinel://…` over TLS |
    /// | `redis-cluster://[user:password@]host[:port],…` | the Redis Cluster that these nodes belong to; `rediss-cluster://…` over TLS |
    /// | `redlock://[user:password@]host[:port],host[:port],host[:port]…[/database]` | an odd number of at least three independent servers; `redlocks://…` over TLS |
    /// | `memory://` | this process only, for tests and local runs; each manager has its own |
    ///
    /// With `redlock://`, all clients of a lock must use the same ttl for it. A restarted server
    /// votes again once it has been up for a second longer than that, or at once with
    /// `appendonly yes` and `appendfsync always`.
    ///
    /// # Errors
    ///
    /// [`LockError::NotConfigured`] when the URL cannot be used, [`LockError::Unavailable`] when
    /// the server cannot: it is unreachable, refuses the password, is not a Redis server, is a
    /// replica, lacks the required replicas, or does not run scripts.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is left open.
    pub async fn connect(endpoint: impl Into<Endpoint>) -> Result<Self, LockError> {
        Self::builder().connect(endpoint).await
    }

    /// Returns a builder for a manager with options other than the defaults.
    pub fn builder() -> Builder {
        let options = Options {
            timeout: DEFAULT_TIMEOUT,
            #[cfg(feature = "redis")]
            redis: redis::RedisOptions::default(),
        };
        Builder { options }
    }

    /// Creates a manager whose locks exist in this process only, for tests and local runs.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().store(MemoryStore::default())
    }

    /// Installs this as the manager of all locked functions that do not name one. A later call
    /// replaces it; functions that are already running keep their manager.
    pub fn install(&self) {
        *lock(&INSTALLED) = Some(self.clone());
    }

    /// Returns the [installed](Self::install) manager.
    ///
    /// # Errors
    ///
    /// [`LockError::NotConfigured`] when none is installed.
    pub fn global() -> Result<Self, LockError> {
        let installed = lock(&INSTALLED).clone();
        installed.ok_or_else(|| {
            LockError::not_configured(
                "no manager is installed; call `LockManager::connect(url).await?.install()` at start, \
                 or name one with `manager = …`",
            )
        })
    }

    /// Refuses new requests from now on, and waits until all background releases are done: those of
    /// dropped guards and futures, and of abandoned attempts. Call this last, because a process
    /// that exits does not wait for them.
    ///
    /// Held locks stay held; their guards renew and release them as before. Waits no longer than
    /// three times the manager's [timeout](Builder::timeout): when the store is unreachable, the
    /// locks expire by themselves.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; the releases go on.
    pub async fn shutdown(&self) {
        self.0.closed.store(true, Ordering::Release);
        let left = self.0.watchdog.drain(self.0.timeout * 3).await;
        if left > 0 {
            tracing::warn!(left, store = %self.0.store_name, "shut down with pending releases, their locks will expire");
        }
    }

    /// Identifies the manager among all live ones.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn check_open(&self) -> Result<(), LockError> {
        if self.0.closed.load(Ordering::Acquire) {
            return Err(LockError::not_configured("the manager was shut down"));
        }
        Ok(())
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    pub(crate) fn store_name(&self) -> Arc<str> {
        Arc::clone(&self.0.store_name)
    }

    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.0.watchdog
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("store", &self.0.store_name).finish_non_exhaustive()
    }
}

/// The options of a [`LockManager`].
#[derive(Debug, Clone)]
#[must_use = "the manager is created by `connect` or `store`"]
pub struct Builder {
    options: Options,
}

impl Builder {
    /// How long connecting to the store, or waiting for its reply, may take: one second by default,
    /// at least 10 ms, at most one minute.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout.clamp(Duration::from_millis(10), Duration::from_secs(60));
        self
    }

    /// Counts a grant or a renewal only when this many replicas of the server (in a cluster, of the
    /// node that owns the lock's slot) have acknowledged it: 0 by default.
    ///
    /// After a failover to one of those replicas, the lock is still held; after a failover to
    /// another replica, it may be granted twice. If all replicas acknowledge, and the old master is
    /// cut off from them, its holders stop before the lock is granted again. This is less than
    /// consensus: a replica that acknowledged a lock and then lost its memory can still be
    /// promoted.
    ///
    /// It costs a round trip between the server and the slowest of those replicas, for each grant and
    /// each batch of renewals; grants that arrive meanwhile share the next one. While fewer replicas
    /// reply, nothing is granted, and leases run out.
    #[cfg(feature = "redis")]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.options.redis.replicas = replicas;
        self
    }

    /// Trusts these certificate authorities (in PEM) instead of the system's. For URLs with TLS;
    /// applies to sentinels as well as to servers.
    ///
    /// ```no_run
    /// # use std::{error::Error, fs};
    /// use lock_runtime::LockManager;
    ///
    /// # async fn connect() -> Result<LockManager, Box<dyn Error>> {
    /// let manager = LockManager::builder()
    ///     .root_certificates(fs::read("ca.pem")?)
    ///     .client_certificate(fs::read("client.pem")?, fs::read("client.key")?)
    ///     .connect("rediss-sentinel://a,b,c/orders")
    ///     .await?;
    /// # Ok(manager)
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.options.redis.certificates.set_roots(pem.into());
        self
    }

    /// Authenticates this client with a certificate and its private key, both in PEM. For URLs with
    /// TLS; applies to sentinels as well as to servers. A manager keeps the certificates that it
    /// was built with.
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, pem: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.options.redis.certificates.set_client(pem.into(), key.into());
        self
    }

    /// Connects to the store at `endpoint`; see [`LockManager::connect`].
    ///
    /// # Errors
    ///
    /// As [`LockManager::connect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is left open.
    pub async fn connect(self, endpoint: impl Into<Endpoint>) -> Result<LockManager, LockError> {
        let store = match endpoint.into().0 {
            Location::Url(url) => url::open(&url, &self.options).await?,
            #[cfg(feature = "redis")]
            Location::Client(client) => {
                let Options { timeout, redis: options } = &self.options;
                redis::open_client(&client, *timeout, options).await?
            }
        };
        let manager = self.with_store(store);
        // The thread follows the sentinels, so that the first lock does not go to a replaced
        // master.
        manager.watchdog().start().map_err(|error| LockError::Unavailable {
            key: None,
            step: Step::Connect,
            store: manager.store_name(),
            source: StoreError::Refused(error.into()),
        })?;
        Ok(manager)
    }

    /// Creates a manager that keeps its locks in a custom store.
    #[must_use]
    pub fn store(self, store: impl Store) -> LockManager {
        self.with_store(Arc::new(store))
    }

    fn with_store(self, store: Arc<dyn Store>) -> LockManager {
        LockManager(Arc::new(Inner {
            store_name: store.name().into(),
            watchdog: Watchdog::new(Arc::clone(&store)),
            store,
            timeout: self.options.timeout,
            closed: AtomicBool::new(false),
        }))
    }
}

/// Where locks are kept: a URL or, with the feature `redis`, a `redis::Client` with settings that a
/// URL cannot express.
#[derive(Clone)]
pub struct Endpoint(Location);

#[derive(Clone)]
enum Location {
    Url(String),
    #[cfg(feature = "redis")]
    Client(Box<::redis::Client>),
}

impl From<&str> for Endpoint {
    fn from(url: &str) -> Self {
        Self(Location::Url(url.to_owned()))
    }
}

impl From<String> for Endpoint {
    fn from(url: String) -> Self {
        Self(Location::Url(url))
    }
}

impl From<&String> for Endpoint {
    fn from(url: &String) -> Self {
        url.as_str().into()
    }
}

#[cfg(feature = "redis")]
impl From<::redis::Client> for Endpoint {
    fn from(client: ::redis::Client) -> Self {
        Self(Location::Client(client.into()))
    }
}

/// Omits the address, which may contain a password.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}
