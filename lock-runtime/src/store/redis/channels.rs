//! Channels on which the tasks of this process listen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::Notify;

/// The channels that are subscribed to, each by one task of each runtime that listens there.
#[derive(Debug, Default)]
pub(in crate::store) struct Channels(Mutex<HashMap<Box<str>, Vec<Ear>>>);

/// What one runtime hears of a channel.
#[derive(Debug)]
struct Ear {
    runtime: runtime::Id,
    heard: Arc<Notify>,
    /// When somebody began to listen last.
    used: Instant,
}

impl Channels {
    /// What tells of messages on a channel, and whether the channel is still to be subscribed to, in a
    /// [`Subscription`].
    pub(in crate::store) fn listen(&self, name: &str, runtime: runtime::Id) -> (Arc<Notify>, bool) {
        let mut channels = self.all();
        let ears = channels.entry(name.into()).or_default();
        let used = Instant::now();
        if let Some(ear) = ears.iter_mut().find(|ear| ear.runtime == runtime) {
            ear.used = used;
            return (Arc::clone(&ear.heard), false);
        }
        let heard = Arc::<Notify>::default();
        ears.push(Ear { runtime, heard: Arc::clone(&heard), used });
        (heard, true)
    }

    /// There is a message on a channel.
    pub(super) fn tell(&self, name: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else { return };
        if let Some(ears) = self.all().get(name) {
            for ear in ears {
                ear.heard.notify_waiters();
            }
        }
    }

    /// Removes what is to be removed from a channel, and says whether there was something.
    fn remove(&self, name: &str, is_removed: impl Fn(&Ear) -> bool) -> bool {
        let mut channels = self.all();
        let Some(ears) = channels.get_mut(name) else { return false };
        let before = ears.len();
        ears.retain(|ear| !is_removed(ear));
        let is_less = ears.len() < before;
        if ears.is_empty() {
            channels.remove(name);
        }
        is_less
    }

    /// A panic elsewhere leaves the map usable: each change to it is complete or not begun.
    fn all(&self) -> MutexGuard<'_, HashMap<Box<str>, Vec<Ear>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The duty to subscribe to a channel while somebody listens there. Dropped with the runtime at the latest.
#[derive(Debug)]
pub(in crate::store) struct Subscription {
    pub(in crate::store) channels: Arc<Channels>,
    pub(in crate::store) name: String,
    pub(in crate::store) heard: Arc<Notify>,
}

impl Subscription {
    /// Whether somebody has begun to listen within this time.
    pub(in crate::store) fn is_used(&self, time: Duration) -> bool {
        let channels = self.channels.all();
        let ears = channels.get(&*self.name).map(Vec::as_slice).unwrap_or_default();
        ears.iter().any(|ear| self.is_mine(ear) && ear.used.elapsed() < time)
    }

    /// Ends the duty, unless somebody has begun to listen within this time.
    pub(in crate::store) fn end_unless_used(&self, time: Duration) -> bool {
        let is_over = |ear: &Ear| self.is_mine(ear) && ear.used.elapsed() >= time;
        self.channels.remove(&self.name, is_over)
    }

    fn is_mine(&self, ear: &Ear) -> bool {
        Arc::ptr_eq(&ear.heard, &self.heard)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.channels.remove(&self.name, |ear| self.is_mine(ear));
    }
}
