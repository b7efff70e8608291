//! [`Channels`]: notifications of waiters, for which the servers publish that a lock was released.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{sleep, timeout};

use super::node::Nodes;
use crate::key::Key;
use crate::store::redis::client::fan_out::FanOut;
use crate::sync::lock;

/// How often a channel is subscribed again, because a connection may have been replaced.
const RESUBSCRIBE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a channel stays subscribed after its last use: longer than the longest backoff.
const KEEP: Duration = Duration::from_secs(2);

/// The channel on which the servers publish that a lock was released.
pub(super) fn channel(key: &Key) -> String {
    format!("lock-runtime:free:{key}")
}

/// The subscribed channels, each with one listener for each runtime.
#[derive(Debug, Default)]
pub(super) struct Channels(Mutex<HashMap<Box<str>, Vec<Listener>>>);

#[derive(Debug)]
struct Listener {
    runtime: runtime::Id,
    notify: Arc<Notify>,
    last_used: Instant,
}

impl Channels {
    /// Resolves when a server publishes, after this call, that the lock was released. A lost
    /// message does not matter: a waiter polls in any case.
    pub(super) fn listen(self: &Arc<Self>, nodes: &Nodes, key: &Key) -> OwnedNotified {
        let (name, runtime) = (channel(key), runtime::Handle::current().id());
        let mut channels = lock(&self.0);
        let listeners = channels.entry(name.as_str().into()).or_default();
        let last_used = Instant::now();
        if let Some(listener) = listeners.iter_mut().find(|l| l.runtime == runtime) {
            listener.last_used = last_used;
            return Arc::clone(&listener.notify).notified_owned();
        }
        let notify = Arc::<Notify>::default();
        listeners.push(Listener { runtime, notify: Arc::clone(&notify), last_used });
        drop(channels);
        let published = Arc::clone(&notify).notified_owned();
        let subscription = Subscription { channels: Arc::clone(self), name, notify };
        tokio::spawn(subscription.keep(nodes.clone()));
        published
    }

    /// Wakes the listeners of a channel.
    pub(super) fn deliver(&self, channel: &[u8]) {
        let Ok(channel) = std::str::from_utf8(channel) else { return };
        if let Some(listeners) = lock(&self.0).get(channel) {
            for listener in listeners {
                listener.notify.notify_waiters();
            }
        }
    }

    /// Removes listeners of a channel, and returns whether any were removed.
    fn remove(&self, name: &str, is_removed: impl Fn(&Listener) -> bool) -> bool {
        let mut channels = lock(&self.0);
        let Some(listeners) = channels.get_mut(name) else { return false };
        let before = listeners.len();
        listeners.retain(|listener| !is_removed(listener));
        let is_fewer = listeners.len() < before;
        if listeners.is_empty() {
            channels.remove(name);
        }
        is_fewer
    }
}

/// Keeps a channel subscribed while it is used. Dropped with the runtime at the latest.
#[derive(Debug)]
struct Subscription {
    channels: Arc<Channels>,
    name: String,
    notify: Arc<Notify>,
}

impl Subscription {
    /// Subscribes on the connections of this runtime, and unsubscribes when the channel is no
    /// longer used. One task does both, so that neither overtakes the other.
    async fn keep(self, nodes: Nodes) {
        loop {
            while self.is_used() {
                self.subscribe(&nodes).await;
                sleep(RESUBSCRIBE_INTERVAL).await;
            }
            self.unsubscribe(&nodes).await;
            if self.end_unless_used() {
                return;
            }
        }
    }

    async fn subscribe(&self, nodes: &Nodes) {
        let all = nodes.iter().map(|(_, node)| {
            let name = self.name.clone();
            async move { node.subscribe(&name).await }
        });
        let _ = timeout(RESUBSCRIBE_INTERVAL, FanOut::new(all).join()).await;
    }

    async fn unsubscribe(&self, nodes: &Nodes) {
        let all = nodes.iter().map(|(_, node)| {
            let name = self.name.clone();
            async move { node.unsubscribe(&name).await }
        });
        let _ = timeout(RESUBSCRIBE_INTERVAL, FanOut::new(all).join()).await;
    }

    fn is_used(&self) -> bool {
        let channels = lock(&self.channels.0);
        let listeners = channels.get(&*self.name).map(Vec::as_slice).unwrap_or_default();
        listeners
            .iter()
            .any(|listener| self.is_mine(listener) && listener.last_used.elapsed() < KEEP)
    }

    /// Ends the subscription unless it was used again in the meantime.
    fn end_unless_used(&self) -> bool {
        let is_over =
            |listener: &Listener| self.is_mine(listener) && listener.last_used.elapsed() >= KEEP;
        self.channels.remove(&self.name, is_over)
    }

    fn is_mine(&self, listener: &Listener) -> bool {
        Arc::ptr_eq(&listener.notify, &self.notify)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.channels.remove(&self.name, |listener| self.is_mine(listener));
    }
}
