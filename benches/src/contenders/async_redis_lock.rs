//! `async-redis-lock`.

use anyhow::Result;
use async_redis_lock::{Locker, Options};

use super::{Body, Call, Lock, MAX_WAIT, Settings};

pub(super) struct AsyncRedisLock {
    locker: Locker,
    options: Options,
}

impl AsyncRedisLock {
    pub(super) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        let options = Options::new()
            .timeout(Some(MAX_WAIT))
            .ttl(settings.ttl)
            // As the documentation recommends.
            .extend(settings.ttl / 3);
        Ok(Self { locker: Locker::from_redis_url(url).await?, options })
    }
}

impl Lock for AsyncRedisLock {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        Box::pin(async move {
            let lock = self.locker.acquire_with_options(&self.options, key).await?;
            body.await;
            Ok(lock.release().await?)
        })
    }
}
