//! The contenders: this project, a lock written by hand, and other crates.

mod async_redis_lock;
mod attribute;
mod distkit;
mod distributed_lock_redis;
mod raw;
mod raw_cluster;
mod raw_redlock;
mod redis_lock;
mod rlock;
mod rslock;
mod this;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub(crate) use raw::connect as connect_raw;

/// The wait of each call, for contenders with a limit: longer than any scenario.
const MAX_WAIT: Duration = Duration::from_mins(10);

/// The future that runs while the lock is held.
pub(crate) type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One locked call.
pub(crate) type Call<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// A connected contender.
///
/// Every contender, the lock by hand included, pays for the same indirection: one boxed body, one
/// boxed call and one virtual call.
pub(crate) trait Lock: Send + Sync {
    /// Takes the lock `key`, runs `body`, and returns when the release of the lock is confirmed.
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a>;
}

/// The settings of a lock; everything else is left at the contender's defaults.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    /// Whether bodies outlast the ttl, for contenders that do not renew by default.
    pub(crate) renewed: bool,
    /// Number of replicas that have to acknowledge a grant; only for this project.
    pub(crate) replicas: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(30), renewed: false, replicas: 0 }
    }
}

/// One way to lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Contender {
    Raw,
    This,
    Attribute,
    Rslock,
    AsyncRedisLock,
    Rlock,
    Distkit,
    DistributedLockRedis,
    RedisLock,
}

impl Contender {
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns the name for tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::This => "this",
            Self::Attribute => "this, attribute",
            _ => self.package(),
        }
    }

    /// Returns the package whose version is reported.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Raw => "redis",
            Self::This | Self::Attribute => "lock-runtime",
            Self::Rslock => "rslock",
            Self::AsyncRedisLock => "async-redis-lock",
            Self::Rlock => "rlock",
            Self::Distkit => "distkit",
            Self::DistributedLockRedis => "distributed-lock-redis",
            Self::RedisLock => "redis-lock",
        }
    }

    /// Returns the name for the command line.
    pub(crate) fn option(self) -> String {
        let value = self.to_possible_value().expect("no variant is hidden");
        value.get_name().to_owned()
    }

    /// Fails with the reason if a call does not wait for a held lock.
    pub(crate) fn check_waits(self) -> Result<(), &'static str> {
        match self {
            Self::DistributedLockRedis => {
                Err("`acquire` tries a single server once, and fails at once when the lock is held")
            }
            _ => Ok(()),
        }
    }

    /// Fails with the reason if leases are not renewed while the body runs.
    pub(crate) fn check_renews(self) -> Result<(), &'static str> {
        match self {
            Self::Raw => Err("does not renew: it is the floor of acquire and release"),
            Self::RedisLock => Err("does not renew"),
            _ => Ok(()),
        }
    }

    pub(crate) async fn connect(self, url: &str, settings: Settings) -> Result<Arc<dyn Lock>> {
        Ok(match self {
            Self::Raw => match url.split_once("://") {
                Some(("redis-cluster", hosts)) => {
                    Arc::new(raw_cluster::RawCluster::connect(hosts, settings).await?)
                }
                Some(("redlock", hosts)) => {
                    Arc::new(raw_redlock::RawRedlock::connect(hosts, settings).await?)
                }
                _ => Arc::new(raw::Raw::connect(url, settings).await?),
            },
            Self::This => Arc::new(this::This::connect(url, settings).await?),
            Self::Attribute => Arc::new(attribute::Attribute::connect(url, settings).await?),
            Self::Rslock => Arc::new(rslock::Rslock::new(url, settings)),
            Self::AsyncRedisLock => {
                Arc::new(async_redis_lock::AsyncRedisLock::connect(url, settings).await?)
            }
            Self::Rlock => Arc::new(rlock::Rlock::connect(url, settings).await?),
            Self::Distkit => Arc::new(distkit::Distkit::connect(url, settings).await?),
            Self::DistributedLockRedis => Arc::new(
                distributed_lock_redis::DistributedLockRedis::connect(url, settings).await?,
            ),
            Self::RedisLock => Arc::new(redis_lock::RedisLock::connect(url, settings).await?),
        })
    }
}
