//! `distributed-lock-redis`, with one server.

use anyhow::Result;
use distributed_lock_core::prelude::*;
use distributed_lock_redis::RedisLockProvider;

use super::{Body, Call, Lock, MAX_WAIT, Settings};

pub(super) struct DistributedLockRedis {
    provider: RedisLockProvider,
}

impl DistributedLockRedis {
    pub(super) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        let provider = RedisLockProvider::builder()
            .url(url)
            .expiry(settings.ttl)
            // In proportion to the ttl, as its defaults are.
            .min_validity(settings.ttl * 9 / 10)
            .extension_cadence(settings.ttl / 3)
            .build()
            .await?;
        Ok(Self { provider })
    }
}

impl Lock for DistributedLockRedis {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        Box::pin(async move {
            let lock = self.provider.create_lock(key);
            let handle = lock.acquire(Some(MAX_WAIT)).await?;
            body.await;
            Ok(handle.release().await?)
        })
    }
}
