//! This project's attribute.

use std::time::Duration;

use anyhow::Result;
use lock_runtime::{LockError, LockManager, redis_lock};

use super::{Body, Call, Lock, MAX_WAIT, Settings};

pub(super) struct Attribute {
    ttl: Duration,
}

impl Attribute {
    pub(super) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        LockManager::connect(url).await?.install();
        Ok(Self { ttl: settings.ttl })
    }
}

impl Lock for Attribute {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        Box::pin(async move { Ok(locked(key, self.ttl, body).await?) })
    }
}

#[redis_lock(key = "<key>", ttl = ttl, wait = MAX_WAIT)]
async fn locked(key: &str, ttl: Duration, body: Body) -> Result<(), LockError> {
    body.await;
    Ok(())
}
