//! `rslock`: Redlock with one server.

use std::time::Duration;

use rslock::LockManager;

use super::{Body, Call, Lock, Terms};

pub(super) struct Rslock {
    locks: LockManager,
    terms: Terms,
}

impl Rslock {
    /// It connects when the first lock is taken.
    pub(super) fn new(url: &str, terms: Terms) -> Self {
        Self { locks: LockManager::new(vec![url]), terms }
    }
}

impl Lock for Rslock {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        let Terms { ttl, renewed, .. } = self.terms;
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

    /// A guard is not renewed, a routine is.
    fn using<'a>(&'a self, key: &'a str, ttl: Duration, body: Body) -> Call<'a> {
        Box::pin(
            async move { Ok(self.locks.using(key.as_bytes(), ttl, async || body.await).await?) },
        )
    }
}
