//! `rslock`: Redlock with one server.

use std::time::Duration;

use rslock::LockManager;

use super::{Body, Call, Lock, Settings};

pub(super) struct Rslock {
    locks: LockManager,
    settings: Settings,
}

impl Rslock {
    /// Connects when the first lock is taken.
    pub(super) fn new(url: &str, settings: Settings) -> Self {
        Self { locks: LockManager::new(vec![url]), settings }
    }
}

impl Lock for Rslock {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        let Settings { ttl, renewed, .. } = self.settings;
        if renewed { self.using(key, ttl, body) } else { self.guarded(key, ttl, body) }
    }
}

impl Rslock {
    fn guarded<'a>(&'a self, key: &'a str, ttl: Duration, body: Body) -> Call<'a> {
        Box::pin(async move {
            let guard = self.locks.acquire(key, ttl).await?;
            body.await;
            guard.release().await;
            Ok(())
        })
    }

    /// Runs the body with `using`, which renews; a guard is not renewed.
    fn using<'a>(&'a self, key: &'a str, ttl: Duration, body: Body) -> Call<'a> {
        Box::pin(
            async move { Ok(self.locks.using(key.as_bytes(), ttl, async || body.await).await?) },
        )
    }
}
