//! [`LockManager`]: connecting, the installed one, shutdown.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

#[cfg(feature = "tls")]
use redis::ClientTlsConfig;

use crate::error::Step;
use crate::store::memory::MemoryStore;
use crate::store::redis::RedisStore;
use crate::store::redis::address::{Address, Topology};
#[cfg(feature = "tls")]
use crate::store::redis::tls::Certificates;
use crate::store::redlock::Redlock;
use crate::store::{Store, StoreError};
use crate::watchdog::Watchdog;
use crate::{Key, LockError, LockRequest};

/// How long a connection or an answer may take.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// The manager that locked functions use when they name none.
static INSTALLED: RwLock<Option<LockManager>> = RwLock::new(None);

/// Takes locks in one store, and keeps those that are held alive.
///
/// Cheap to clone; all clones share the store's connections and one background thread. It works
/// from several Tokio runtimes, one after the other or side by side.
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
    /// | `redis://[user:password@]host[:port][/database]` | Redis, also Valkey |
    /// | `rediss://…` | the same over TLS, with the feature `tls` |
    /// | `redis+unix:///path/to/socket[?db=1]` | the same over a Unix socket |
    /// | `redis-sentinel://[user:password@]host[:port],…/service[/database]` | the master that these sentinels name; `rediss-sentinel://…` over TLS |
    /// | `redis-cluster://[user:password@]host[:port],…` | a Redis Cluster, of which these are some servers; `rediss-cluster://…` over TLS |
    /// | `redlock://[user:password@]host[:port],host[:port],host[:port]…[/database]` | three or more independent servers, an odd number; `redlocks://…` over TLS |
    /// | `memory://` | this process only, for tests and local runs; each manager has its own |
    ///
    /// With `redlock://`, all who take a lock have to use the same ttl for it, and a server that was
    /// restarted votes again when it is a second older than that, or at once with `appendonly yes` and
    /// `appendfsync always`.
    ///
    /// # Errors
    ///
    /// [`LockError::NotConfigured`] when the URL cannot be used, [`LockError::Unavailable`] when
    /// the server cannot: unreachable, wrong password, not a Redis, a replica, without the replicas that are
    /// asked for, or one that runs no scripts.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is left open.
    pub async fn connect(endpoint: impl Into<Endpoint>) -> Result<Self, LockError> {
        Self::builder().connect(endpoint).await
    }

    /// A manager with other options than the default ones.
    pub fn builder() -> Builder {
        Builder {
            timeout: DEFAULT_TIMEOUT,
            replicas: 0,
            #[cfg(feature = "tls")]
            certificates: Certificates::default(),
        }
    }

    /// A manager whose locks are known in this process only, for tests and local runs.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().store(MemoryStore::default())
    }

    /// Makes this the manager of all locked functions that name none. A later call replaces it;
    /// functions that run keep the one they began with.
    pub fn install(&self) {
        *INSTALLED.write().unwrap_or_else(PoisonError::into_inner) = Some(self.clone());
    }

    /// The manager that was [installed](Self::install).
    ///
    /// # Errors
    ///
    /// [`LockError::NotConfigured`] when none was.
    pub fn global() -> Result<Self, LockError> {
        let installed = INSTALLED.read().unwrap_or_else(PoisonError::into_inner).clone();
        installed.ok_or_else(|| {
            LockError::not_configured(
                "no manager is installed; call `LockManager::connect(url).await?.install()` at start, \
                 or name one with `manager = …`",
            )
        })
    }

    /// A request for the lock `key`, to be awaited.
    pub fn lock(&self, key: impl Into<Key>) -> LockRequest {
        LockRequest::new(Ok(self.clone()), key.into())
    }

    /// Refuses new requests from now on, and waits until what is to be released in the background
    /// is released: locks whose guards or futures were dropped, and attempts that were given up.
    /// The last thing to do before a process ends, because it ends without waiting for that.
    ///
    /// Locks that are still held stay held; their guards renew and release them as before. Waits
    /// no longer than three times the manager's [timeout](Builder::timeout): when the store is
    /// away, the locks expire by themselves.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; the releases go on.
    pub async fn shutdown(&self) {
        self.0.closed.store(true, Ordering::Release);
        let left = self.0.watchdog.drain(self.0.timeout * 3).await;
        if left > 0 {
            tracing::warn!(left, store = %self.0.store_name, "locks are left to expire");
        }
    }

    /// Tells managers apart, as long as they live.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn check_open(&self) -> Result<(), LockError> {
        if self.0.closed.load(Ordering::Acquire) {
            return Err(LockError::not_configured("its manager was shut down"));
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
#[must_use = "a manager is made by `connect`"]
pub struct Builder {
    timeout: Duration,
    replicas: u32,
    #[cfg(feature = "tls")]
    certificates: Certificates,
}

impl Builder {
    /// How long a connection or an answer of the store may take: one second by default, 10 ms at
    /// least, one minute at most.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(Duration::from_millis(10), Duration::from_secs(60));
        self
    }

    /// Has each grant and each renewal acknowledged by so many replicas of the server (in a cluster,
    /// of the lock's own), or it does not count: none by default.
    ///
    /// After a failover to one of those replicas the lock is still held; after one to another replica
    /// it may be granted twice. With all replicas acknowledging, and the old master cut off from them,
    /// its holders stop before anybody else is granted the lock. That is less than consensus: a replica
    /// that acknowledged a lock and then lost its memory can still be promoted.
    ///
    /// It costs a round trip between the server and its slowest replica of those, for each grant and
    /// each batch of renewals; a connection serves one grant after the other meanwhile. While fewer
    /// replicas answer, nothing is granted, and leases run out.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Trusts servers that these authorities vouch for, instead of the system's: certificates in PEM. For
    /// URLs with TLS, and for sentinels as well as for servers.
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
        self.certificates.roots = Some(pem.into());
        self
    }

    /// The certificate by which the servers know this client, and its private key, both in PEM. For URLs
    /// with TLS, and for sentinels as well as for servers. A manager keeps the ones that it was made with.
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, pem: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let client = ClientTlsConfig { client_cert: pem.into(), client_key: key.into() };
        self.certificates.client = Some(client);
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
        let address = match endpoint.into().0 {
            Place::Url(url) if url.starts_with("memory:") => {
                if self.replicas > 0 {
                    return Err(LockError::not_configured(
                        "`replicas` does not go with memory://, which has none",
                    ));
                }
                return Ok(self.store(MemoryStore::default()));
            }
            Place::Url(url) => Address::parse(&url).map_err(LockError::not_configured)?,
            Place::Client(client) => {
                Address::Redis(Topology::Server(client.get_connection_info().clone().into()))
            }
        };
        #[cfg(feature = "tls")]
        let address = self.certificates.apply(address).map_err(LockError::not_configured)?;
        let manager = match address {
            Address::Redis(topology) => {
                let store = RedisStore::new(topology, self.timeout, self.replicas);
                store.check().await.map_err(|source| unreachable(store.name(), source))?;
                self.store(store)
            }
            Address::Redlock(servers) => {
                if self.replicas > 0 {
                    let why = "`replicas` does not go with redlock://, whose servers have none";
                    return Err(LockError::not_configured(why));
                }
                let store =
                    Redlock::new(servers, self.timeout).map_err(LockError::not_configured)?;
                store.check().await.map_err(|source| unreachable(store.name(), source))?;
                self.store(store)
            }
        };
        // Before the first lock, so that it is not asked of a master that was replaced meanwhile.
        let started = manager.watchdog().start().map_err(|error| StoreError::Refused(error.into()));
        started.map_err(|source| unreachable(&manager.0.store_name, source))?;
        Ok(manager)
    }

    /// A manager that keeps its locks in a store of your own.
    #[must_use]
    pub fn store(self, store: impl Store) -> LockManager {
        let store: Arc<dyn Store> = Arc::new(store);
        LockManager(Arc::new(Inner {
            store_name: store.name().into(),
            watchdog: Watchdog::new(Arc::clone(&store)),
            store,
            timeout: self.timeout,
            closed: AtomicBool::new(false),
        }))
    }
}

fn unreachable(store: &str, source: StoreError) -> LockError {
    LockError::Unavailable { key: None, step: Step::Connect, store: store.into(), source }
}

/// Where locks are kept: a URL, or a [`redis::Client`] that was made with settings which a URL
/// cannot express.
#[derive(Clone)]
pub struct Endpoint(Place);

#[derive(Clone)]
enum Place {
    Url(String),
    Client(Box<redis::Client>),
}

impl From<&str> for Endpoint {
    fn from(url: &str) -> Self {
        Self(Place::Url(url.to_owned()))
    }
}

impl From<String> for Endpoint {
    fn from(url: String) -> Self {
        Self(Place::Url(url))
    }
}

impl From<&String> for Endpoint {
    fn from(url: &String) -> Self {
        url.as_str().into()
    }
}

impl From<redis::Client> for Endpoint {
    fn from(client: redis::Client) -> Self {
        Self(Place::Client(client.into()))
    }
}

/// Without the address, which may contain a password.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}
