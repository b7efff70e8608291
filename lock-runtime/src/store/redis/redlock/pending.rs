//! [`Pending`]: the acquires in flight, and the connections that carry their requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::eligibility::Voters;
use crate::store::redis::client::connection::Connection;
use crate::store::redis::keys::Keys;
use crate::store::{Claim, Release};
use crate::sync::lock;
use crate::token::Token;

/// The pending attempts of one manager, by token, from the first request until all replies have
/// arrived or the lock is released.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<BTreeMap<Token, Arc<Attempt>>>);

/// A release on all servers.
#[derive(Debug)]
pub(super) struct ReleaseOrder {
    pub(super) release: Release,
    /// The channel that notifies the waiters; empty: none.
    pub(super) channel: String,
}

impl Pending {
    pub(super) fn begin(&self, claim: &Claim, nodes: usize) -> Arc<Attempt> {
        let requests = Requests { sent: 0, carriers: vec![None; nodes], released: None };
        let attempt = Arc::new(Attempt {
            keys: Keys::of(&claim.key),
            token: claim.token,
            ttl: claim.ttl,
            voters: Voters::default(),
            requests: Mutex::new(requests),
        });
        lock(&self.0).insert(claim.token, Arc::clone(&attempt));
        attempt
    }

    /// Ends an attempt by a release: no further requests of the attempt are sent. Returns, for each
    /// server, the connection that carries a request without a reply: what is sent on another
    /// connection may overtake the request.
    pub(super) fn release(
        &self,
        order: &Arc<ReleaseOrder>,
        nodes: usize,
    ) -> Vec<Option<Connection>> {
        let attempt = lock(&self.0).remove(&order.release.token);
        attempt.map_or_else(
            || vec![None; nodes],
            |attempt| {
                let mut requests = lock(&attempt.requests);
                requests.released = Some(Arc::clone(order));
                requests.carriers.iter_mut().map(Option::take).collect()
            },
        )
    }

    /// Ends an attempt that has all replies.
    pub(super) fn end(&self, token: Token) {
        lock(&self.0).remove(&token);
    }
}

/// One attempt to take a lock.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) keys: Keys,
    pub(super) token: Token,
    pub(super) ttl: Duration,
    pub(super) voters: Voters,
    requests: Mutex<Requests>,
}

#[derive(Debug)]
struct Requests {
    sent: usize,
    /// The connection that carries the request to each server, while the reply is missing.
    carriers: Vec<Option<Connection>>,
    /// How the lock was released, once it was.
    released: Option<Arc<ReleaseOrder>>,
}

impl Attempt {
    /// Records that a request is being sent to a server. Returns `false` if the attempt was
    /// abandoned in the meantime: the request must not be sent then.
    pub(super) fn send(&self, node: usize, connection: &Connection) -> bool {
        let mut requests = lock(&self.requests);
        let is_wanted = requests.released.is_none();
        if is_wanted {
            requests.sent += 1;
            requests.carriers[node] = Some(connection.clone());
        }
        is_wanted
    }

    /// How many requests were sent.
    pub(super) fn sent(&self) -> usize {
        lock(&self.requests).sent
    }

    /// Records the reply of a server.
    pub(super) fn replied(&self, node: usize) {
        lock(&self.requests).carriers[node] = None;
    }

    /// How the lock was released, if it was.
    pub(super) fn released(&self) -> Option<Arc<ReleaseOrder>> {
        lock(&self.requests).released.clone()
    }
}
