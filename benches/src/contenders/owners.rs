//! The floor of a cluster: the same two commands, sent straight to the server that owns the key.

use std::collections::HashMap;
use std::sync::Mutex;

use anyhow::{Context, Result};

use super::raw::Raw;
use super::{Body, Call, Lock, Terms};

pub(super) struct Owners {
    masters: Vec<Raw>,
    /// The owners of the keys that were used.
    known: Mutex<HashMap<String, usize>>,
}

impl Owners {
    /// Connects to the masters, which have to be all that there are.
    pub(super) async fn connect(hosts: &str, terms: Terms) -> Result<Self> {
        Ok(Self { masters: Raw::connect_all(hosts, terms).await?, known: Mutex::default() })
    }

    async fn owner(&self, key: &str) -> Result<&Raw> {
        let known = self.known().get(key).copied();
        let index = match known {
            Some(index) => index,
            None => self.find(key).await?,
        };
        Ok(&self.masters[index])
    }

    async fn find(&self, key: &str) -> Result<usize> {
        for (index, master) in self.masters.iter().enumerate() {
            if master.serves(key).await {
                self.known().insert(key.to_owned(), index);
                return Ok(index);
            }
        }
        None.context("no master owns the key")
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
        self.known.lock().expect("no panic under the lock")
    }
}

impl Lock for Owners {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        Box::pin(async move { self.owner(key).await?.run(key, body).await })
    }
}
