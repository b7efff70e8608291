//! The mutex of `distkit`.

use std::time::Duration;

use anyhow::Result;
use distkit::DistkitRedisKey;
use distkit::lock::{LockGuardState, LockOptions, Mutex};
use redis::Client;
use redis::aio::ConnectionManager;

use super::{Body, Call, Lock, Settings};

pub(super) struct Distkit {
    connection: ConnectionManager,
    ttl: Duration,
}

impl Distkit {
    pub(super) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        let connection = Client::open(url)?.get_connection_manager().await?;
        Ok(Self { connection, ttl: settings.ttl })
    }
}

impl Lock for Distkit {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        Box::pin(async move {
            let key = DistkitRedisKey::new(key.to_owned())?;
            let options = LockOptions::builder(key, self.connection.clone()).ttl(self.ttl).build();
            let guard = Mutex::new(options).lock().await?;
            body.await;
            let state = guard.release().await?;
            anyhow::ensure!(state == LockGuardState::Released, "the lock is {state:?}");
            Ok(())
        })
    }
}
