//! The floor of Redlock: the two commands of `raw`, sent to all servers at once, awaiting the
//! slowest. It is not a lock, because the servers do not wait for each other between the two.

use std::future::ready;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::raw::Raw;
use super::{Body, Call, Lock, Settings};

pub(super) struct RawRedlock {
    servers: Vec<Raw>,
}

impl RawRedlock {
    pub(super) async fn connect(hosts: &str, settings: Settings) -> Result<Self> {
        Ok(Self { servers: Raw::connect_all(hosts, settings).await? })
    }
}

impl Lock for RawRedlock {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        let mut body = Some(body);
        let pairs = self.servers.iter().map(move |server| {
            let body = body.take().unwrap_or_else(|| Box::pin(ready(())));
            server.run(key, body)
        });
        Box::pin(async move { try_join_all(pairs).await.map(drop) })
    }
}
