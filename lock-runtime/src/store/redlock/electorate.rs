//! Who votes: each server once, whatever names lead to it.

use std::sync::{Arc, Mutex, PoisonError};

use super::identity::Identity;
use crate::store::StoreError;

/// The servers that take part in one vote.
#[derive(Debug, Default)]
pub(super) struct Electorate(Mutex<Vec<Voter>>);

#[derive(Debug)]
struct Voter {
    name: Arc<str>,
    run_id: Arc<str>,
}

impl Electorate {
    /// Lets the server with a name take part, unless it does so under another name.
    pub(super) fn admit(&self, name: &Arc<str>, identity: &Identity) -> Result<(), StoreError> {
        let run_id = &identity.run_id;
        // A panic elsewhere leaves the list usable: each change to it is complete or not begun.
        let mut voters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(twin) = voters.iter().find(|voter| voter.run_id == *run_id) {
            let text = format!("is the same server as {}, which has one vote", twin.name);
            return Err(StoreError::Refused(text.into()));
        }
        voters.push(Voter { name: Arc::clone(name), run_id: Arc::clone(run_id) });
        Ok(())
    }
}
