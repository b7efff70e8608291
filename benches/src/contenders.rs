//! What is measured: this project, a lock made by hand, and other crates.

mod async_redis_lock;
mod attribute;
mod distkit;
mod distributed_lock_redis;
mod everywhere;
mod owners;
mod raw;
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

pub(crate) use raw::connect as connect_by_hand;

/// How long a call waits for its turn, where a contender has a limit: longer than any scenario.
const PATIENCE: Duration = Duration::from_mins(10);

/// What runs while the lock is held.
pub(crate) type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One locked call.
pub(crate) type Call<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// A connected contender.
///
/// What stands between a scenario and a contender is the same for all of them, the lock by hand
/// included: one boxed body, one boxed call and one virtual call.
pub(crate) trait Lock: Send + Sync {
    /// Takes the lock `key`, runs `body`, releases the lock, and returns when that is confirmed.
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a>;
}

/// The options of a lock; everything else is left at the contender's defaults.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    /// Whether bodies outlast the ttl: for contenders that renew in another way than by default.
    pub(crate) renewed: bool,
    /// How many replicas have to acknowledge a grant: for this project.
    pub(crate) replicas: u32,
}

impl Default for Terms {
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

    /// As it is called in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::This => "this",
            Self::Attribute => "this, attribute",
            _ => self.package(),
        }
    }

    /// The package that has to be looked up for its version.
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

    /// As it is called on the command line.
    pub(crate) fn option(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_name().to_owned()
    }

    /// Fails with the reason if a call does not wait while somebody else holds the lock.
    pub(crate) fn check_waits(self) -> Result<(), &'static str> {
        match self {
            Self::DistributedLockRedis => {
                Err("`acquire` asks a single server once, and fails at once when the lock is held")
            }
            _ => Ok(()),
        }
    }

    /// Fails with the reason if a lease is not kept alive while the body runs.
    pub(crate) fn check_renews(self) -> Result<(), &'static str> {
        match self {
            Self::Raw => Err("does not renew: it is the floor of acquire and release"),
            Self::RedisLock => Err("does not renew"),
            _ => Ok(()),
        }
    }

    pub(crate) async fn connect(self, url: &str, terms: Terms) -> Result<Arc<dyn Lock>> {
        Ok(match self {
            Self::Raw => match url.split_once("://") {
                Some(("redis-cluster", hosts)) => {
                    Arc::new(owners::Owners::connect(hosts, terms).await?)
                }
                Some(("redlock", hosts)) => {
                    Arc::new(everywhere::Everywhere::connect(hosts, terms).await?)
                }
                _ => Arc::new(raw::Raw::connect(url, terms).await?),
            },
            Self::This => Arc::new(this::This::connect(url, terms).await?),
            Self::Attribute => Arc::new(attribute::Attribute::connect(url, terms).await?),
            Self::Rslock => Arc::new(rslock::Rslock::new(url, terms)),
            Self::AsyncRedisLock => {
                Arc::new(async_redis_lock::AsyncRedisLock::connect(url, terms).await?)
            }
            Self::Rlock => Arc::new(rlock::Rlock::connect(url, terms).await?),
            Self::Distkit => Arc::new(distkit::Distkit::connect(url, terms).await?),
            Self::DistributedLockRedis => {
                Arc::new(distributed_lock_redis::DistributedLockRedis::connect(url, terms).await?)
            }
            Self::RedisLock => Arc::new(redis_lock::RedisLock::connect(url, terms).await?),
        })
    }
}
