//! The floor of several independent servers: the same two commands on each of them at once. The slowest
//! one is awaited. It is no lock: the pairs do not wait for each other.

use std::future::ready;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::raw::Raw;
use super::{Body, Call, Lock, Terms};

pub(super) struct Everywhere {
    servers: Vec<Raw>,
}

impl Everywhere {
    pub(super) async fn connect(hosts: &str, terms: Terms) -> Result<Self> {
        Ok(Self { servers: Raw::connect_all(hosts, terms).await? })
    }
}

impl Lock for Everywhere {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        let mut body = Some(body);
        let pairs = self.servers.iter().map(move |server| {
            let body = body.take().unwrap_or_else(|| Box::pin(ready(())));
            server.run(key, body)
        });
        Box::pin(async move { try_join_all(pairs).await.map(drop) })
    }
}
