//! `rlock`.

use anyhow::Result;
use rlock::AcquireOptions;
use rlock::async_lock::RLock;

use super::{Body, Call, Lock, Settings};

pub(super) struct Rlock {
    locks: RLock,
    options: AcquireOptions,
}

impl Rlock {
    pub(super) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        let options = AcquireOptions::builder().ttl(settings.ttl).build()?;
        Ok(Self { locks: RLock::new(url).await?, options })
    }
}

impl Lock for Rlock {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        Box::pin(async move {
            let options = self.options.clone();
            let mut guard = self.locks.acquire_mutex_with_options(key, options).await?;
            body.await;
            Ok(guard.release().await?)
        })
    }
}
