//! `redis-lock`: its lock on a single resource, with one server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use redis_0_27::Client;
use redis_0_27::aio::MultiplexedConnection;
use redis_lock::{LockAcrossOptions, lock_across};
use tokio::sync::Mutex;

use super::{Body, Call, Lock, MAX_WAIT, Settings};

pub(super) struct RedisLock {
    servers: [Arc<Mutex<MultiplexedConnection>>; 1],
    ttl: Duration,
}

impl RedisLock {
    pub(super) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { servers: [Arc::new(Mutex::new(connection))], ttl: settings.ttl })
    }
}

impl Lock for RedisLock {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        // The default ttl of 10 ms is shorter than some bodies, and leases are not renewed.
        let options =
            LockAcrossOptions { ttl: self.ttl, duration: MAX_WAIT, ..LockAcrossOptions::default() };
        Box::pin(async move {
            let result = lock_across(&self.servers, key, body, options).await;
            result.map_err(|error| anyhow!("{error}")) // the error is not `Sync`
        })
    }
}
