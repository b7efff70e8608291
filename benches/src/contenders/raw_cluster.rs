//! The floor of a cluster: the two commands of `raw`, sent directly to the owner of the key.

use std::collections::HashMap;
use std::sync::Mutex;

use anyhow::{Context, Result};

use super::raw::Raw;
use super::{Body, Call, Lock, Settings};

pub(super) struct RawCluster {
    masters: Vec<Raw>,
    /// The index of the owner by key, once it is known.
    owners: Mutex<HashMap<String, usize>>,
}

impl RawCluster {
    /// Connects to all masters of the cluster.
    pub(super) async fn connect(hosts: &str, settings: Settings) -> Result<Self> {
        Ok(Self { masters: Raw::connect_all(hosts, settings).await?, owners: Mutex::default() })
    }

    async fn owner(&self, key: &str) -> Result<&Raw> {
        let known = self.owners().get(key).copied();
        let index = match known {
            Some(index) => index,
            None => self.find_owner(key).await?,
        };
        Ok(&self.masters[index])
    }

    async fn find_owner(&self, key: &str) -> Result<usize> {
        for (index, master) in self.masters.iter().enumerate() {
            if master.owns(key).await {
                self.owners().insert(key.to_owned(), index);
                return Ok(index);
            }
        }
        None.context("no master owns the key")
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
        self.owners.lock().expect("a thread panicked while it held the mutex")
    }
}

impl Lock for RawCluster {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        Box::pin(async move { self.owner(key).await?.run(key, body).await })
    }
}
