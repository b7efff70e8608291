//! The table of URL schemes: which store each of them opens.

use std::sync::Arc;
use std::time::Duration;

use super::memory::MemoryStore;
#[cfg(feature = "redis")]
use super::redis::{self, RedisOptions};
use super::{BoxFuture, Store};
use crate::error::LockError;

/// The options of all stores.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// How long connecting, or waiting for a reply, may take.
    pub(crate) timeout: Duration,
    #[cfg(feature = "redis")]
    pub(crate) redis: RedisOptions,
}

/// Opens the store of a URL: checks the URL, connects, and checks the servers.
type Open = for<'a> fn(&'a str, &'a Options) -> BoxFuture<'a, Result<Arc<dyn Store>, LockError>>;

/// One kind of URL.
struct Scheme {
    name: &'static str,
    /// The Cargo feature that it needs; empty: none.
    feature: &'static str,
    /// `None` without the feature.
    open: Option<Open>,
}

/// All stores: a new one is one more line here.
const SCHEMES: &[Scheme] = &[
    scheme("memory", "", Some(memory)),
    scheme("redis", "redis", SERVER),
    scheme("rediss", "tls", with_tls(SERVER)),
    scheme("redis+unix", "redis", SERVER),
    scheme("unix", "redis", SERVER),
    scheme("valkey", "redis", SERVER),
    scheme("valkeys", "tls", with_tls(SERVER)),
    scheme("valkey+unix", "redis", SERVER),
    scheme("redis-sentinel", "redis", SENTINEL),
    scheme("rediss-sentinel", "tls", with_tls(SENTINEL)),
    scheme("redis-cluster", "redis", CLUSTER),
    scheme("rediss-cluster", "tls", with_tls(CLUSTER)),
    scheme("redlock", "redis", REDLOCK),
    scheme("redlocks", "tls", with_tls(REDLOCK)),
];

#[cfg(feature = "redis")]
const SERVER: Option<Open> =
    Some(|url, options| Box::pin(redis::open_server(url, options.timeout, &options.redis)));
#[cfg(feature = "redis")]
const SENTINEL: Option<Open> =
    Some(|url, options| Box::pin(redis::open_sentinel(url, options.timeout, &options.redis)));
#[cfg(feature = "redis")]
const CLUSTER: Option<Open> =
    Some(|url, options| Box::pin(redis::open_cluster(url, options.timeout, &options.redis)));
#[cfg(feature = "redis")]
const REDLOCK: Option<Open> =
    Some(|url, options| Box::pin(redis::open_redlock(url, options.timeout, &options.redis)));

#[cfg(not(feature = "redis"))]
const SERVER: Option<Open> = None;
#[cfg(not(feature = "redis"))]
const SENTINEL: Option<Open> = None;
#[cfg(not(feature = "redis"))]
const CLUSTER: Option<Open> = None;
#[cfg(not(feature = "redis"))]
const REDLOCK: Option<Open> = None;

const fn scheme(name: &'static str, feature: &'static str, open: Option<Open>) -> Scheme {
    Scheme { name, feature, open }
}

const fn with_tls(open: Option<Open>) -> Option<Open> {
    if cfg!(feature = "tls") { open } else { None }
}

/// Opens the store of a URL. Errors quote no more of the URL than its scheme, because the rest may
/// be a password.
///
/// # Errors
///
/// [`LockError::NotConfigured`] for a URL that cannot be used, [`LockError::Unavailable`] for a
/// server that cannot.
pub(crate) async fn open(url: &str, options: &Options) -> Result<Arc<dyn Store>, LockError> {
    let (name, _) = url.split_once(':').unwrap_or_default();
    let is_word = name.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '+' | '-'));
    let has_host = url[name.len()..].starts_with("://") || name == "memory";
    if name.is_empty() || !is_word || !has_host {
        let help = "write it as in redis://localhost:6379/0";
        return Err(LockError::not_configured(format!("the URL has no scheme; {help}")));
    }
    let Some(scheme) = SCHEMES.iter().find(|scheme| scheme.name == name) else {
        let help = "use redis://, redis-sentinel://, redis-cluster://, redlock:// (with TLS: \
                    rediss://, rediss-sentinel://, rediss-cluster://, redlocks://), \
                    redis+unix:// or memory://";
        return Err(LockError::not_configured(format!("unknown URL scheme {name}://; {help}")));
    };
    let Some(open) = scheme.open else {
        let feature = scheme.feature;
        let what = format!("{name}:// needs the feature `{feature}` of lock-runtime");
        return Err(LockError::not_configured(what));
    };
    open(url, options).await
}

fn memory<'a>(
    _url: &'a str,
    options: &'a Options,
) -> BoxFuture<'a, Result<Arc<dyn Store>, LockError>> {
    Box::pin(async {
        #[cfg(feature = "redis")]
        options.redis.refuse_replicas("memory://")?;
        let _ = options;
        Ok(Arc::new(MemoryStore::default()) as Arc<dyn Store>)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_the_problem_without_the_password() {
        let options = Options {
            timeout: Duration::from_secs(1),
            #[cfg(feature = "redis")]
            redis: RedisOptions::default(),
        };
        for (url, problem) in [
            ("", "has no scheme"),
            ("localhost:6379", "has no scheme"),
            ("REDIS://:hunter2@a", "has no scheme"),
            ("redis:hunter2", "has no scheme"),
            ("redis-clusters://:hunter2@a", "unknown URL scheme redis-clusters://"),
        ] {
            let error = open(url, &options).await.err().unwrap().to_string();
            assert!(error.contains(problem), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(open("memory://", &options).await.is_ok());
    }

    #[cfg(not(feature = "redis"))]
    #[tokio::test]
    async fn names_the_missing_feature() {
        let options = Options { timeout: Duration::from_secs(1) };
        let error = open("redlocks://a,b,c", &options).await.err().unwrap().to_string();
        assert!(error.contains("needs the feature `tls`"), "{error}");
        let error = open("redis://a", &options).await.err().unwrap().to_string();
        assert!(error.contains("needs the feature `redis`"), "{error}");
    }
}
