//! `redis-lock`: its lock on a single resource, with one server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use redis_0_27::Client;
use redis_0_27::aio::MultiplexedConnection;
use redis_lock::{LockAcrossOptions, lock_across};
use tokio::sync::Mutex;

use super::{Body, Call, Lock, PATIENCE, Terms};

pub(super) struct RedisLock {
    servers: [Arc<Mutex<MultiplexedConnection>>; 1],
    ttl: Duration,
}

impl RedisLock {
    pub(super) async fn connect(url: &str, terms: Terms) -> Result<Self> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { servers: [Arc::new(Mutex::new(connection))], ttl: terms.ttl })
    }
}

impl Lock for RedisLock {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        // Its default ttl, 10 ms, is shorter than some bodies, and it does not renew.
        let options =
            LockAcrossOptions { ttl: self.ttl, duration: PATIENCE, ..LockAcrossOptions::default() };
        Box::pin(async move {
            let done = lock_across(&self.servers, key, body, options).await;
            done.map_err(|error| anyhow!("{error}")) // it cannot be shared between threads
        })
    }
}
