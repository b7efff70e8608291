//! This project, without the attribute.

use std::time::Duration;

use anyhow::Result;
use lock_runtime::LockManager;

use super::{Body, Call, Lock, MAX_WAIT, Settings};

pub(super) struct This {
    locks: LockManager,
    ttl: Duration,
}

impl This {
    pub(super) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        let locks = LockManager::builder().replicas(settings.replicas).connect(url).await?;
        Ok(Self { locks, ttl: settings.ttl })
    }
}

impl Lock for This {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        Box::pin(async move {
            let guard = self.locks.lock(key).ttl(self.ttl).wait(MAX_WAIT).await?;
            body.await;
            Ok(guard.release().await?)
        })
    }
}
