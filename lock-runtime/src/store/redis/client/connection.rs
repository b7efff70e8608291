//! [`Connection`]: one connection to a server, and its health.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::sync::{Notify, OnceCell, watch};

use super::error::{self, ClientError, Reply};
use super::replication::{Replication, Unacknowledged};
use crate::sync::lock;

/// How many replies in a row may be missing before a connection is replaced. A black-holed
/// connection shows no other sign, for hours.
const MAX_MISSING: u32 = 2;

/// One connection to a server, which executes commands in the order in which they are sent.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    multiplexed: MultiplexedConnection,
    state: Arc<State>,
    /// Whether commands are for a slot that is still being moved to this server.
    asking: bool,
}

/// What all clones of a connection share.
#[derive(Debug)]
pub(super) struct State {
    id: u64,
    address: String,
    /// The failover epoch of the server; 0 without sentinels.
    epoch: u64,
    /// The newest failover epoch. The server of an older epoch is no longer the master.
    newest_epoch: watch::Receiver<u64>,
    replication: Replication,
    broken: AtomicBool,
    disconnected: Notify,
    /// How many replies have been missing since the last one.
    missing: AtomicU32,
    pace: Mutex<Duration>,
    unacknowledged: Mutex<Unacknowledged>,
    /// The scripts that were called on this connection; a list, because there are few.
    called: Mutex<Vec<&'static str>>,
    /// The channel of this connection.
    pub(super) inbox: String,
    /// Why push messages do not arrive, if they do not; unknown until the first subscription.
    pub(super) no_push: OnceCell<Option<String>>,
    /// Whether the reason was logged, for all connections of the manager.
    pub(super) warned_no_push: Arc<AtomicBool>,
}

/// The properties of a new connection.
#[derive(Debug)]
pub(super) struct Properties {
    pub(super) address: String,
    pub(super) epoch: u64,
    pub(super) newest_epoch: watch::Receiver<u64>,
    pub(super) replication: Replication,
    pub(super) client_name: String,
    /// Why push messages cannot arrive, if that is known.
    pub(super) no_push: Option<String>,
    pub(super) warned_no_push: Arc<AtomicBool>,
}

impl Connection {
    pub(super) fn new(multiplexed: MultiplexedConnection, state: Arc<State>) -> Self {
        Self { multiplexed, state, asking: false }
    }

    /// Returns the same connection for one command about a slot that is being moved to its server.
    pub(crate) fn asking(self) -> Self {
        Self { asking: true, ..self }
    }

    /// Starts a pipeline for [`send`](Self::send).
    pub(super) fn pipeline(&self) -> Pipeline {
        let mut commands = Pipeline::new();
        if self.asking {
            commands.cmd("ASKING");
        }
        commands
    }

    /// Sends a command and returns its reply.
    pub(crate) async fn call(&self, command: &Cmd) -> Reply {
        if self.asking {
            let mut commands = self.pipeline();
            commands.add_command(command.clone());
            let mut replies = self.send(&commands).await?;
            return replies.pop().unwrap_or_else(|| Err(ClientError::unexpected(&Value::Nil)));
        }
        let reply = self.multiplexed.clone().send_packed_command(command).await;
        let reply = reply.and_then(Value::extract_error);
        self.state.record_reply(&reply);
        self.state.check_epoch()?;
        reply.map_err(|error| ClientError::sending(&error))
    }

    /// Sends commands together and returns the reply to each.
    pub(crate) async fn send(&self, commands: &Pipeline) -> Result<Vec<Reply>, ClientError> {
        let replies =
            self.multiplexed.clone().send_packed_commands(commands, 0, commands.len()).await;
        self.state.record_reply(&replies);
        self.state.check_epoch()?;
        let replies = replies.map_err(|error| ClientError::sending(&error))?;
        let replies = replies.into_iter().map(|reply| {
            let reply = reply.extract_error();
            self.state.record_reply(&reply);
            reply.map_err(|error| ClientError::sending(&error))
        });
        Ok(replies.collect())
    }

    /// Sends a command and returns its reply, even if the server is no longer the master.
    pub(super) async fn call_stale(&self, command: &Cmd) -> Result<Value, RedisError> {
        let reply = self.multiplexed.clone().send_packed_command(command).await;
        reply.and_then(Value::extract_error)
    }

    /// Subscribes to a channel.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<(), RedisError> {
        let subscribed = self.multiplexed.clone().subscribe(channel).await;
        self.state.record_reply(&subscribed);
        subscribed
    }

    /// Waits until the connection is unusable, and push messages no longer arrive.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn unusable(&self) {
        let State { epoch, disconnected, broken, .. } = &*self.state;
        let mut newest_epoch = self.state.newest_epoch.clone();
        let stale = async {
            if newest_epoch.wait_for(|newest| epoch < newest).await.is_err() {
                std::future::pending::<()>().await; // the sentinels are gone, and the manager with them
            }
        };
        let disconnected = disconnected.notified();
        if !broken.load(Ordering::Acquire) {
            tokio::select! {
                () = disconnected => {}
                () = stale => {}
            }
        }
    }

    /// Whether commands that are sent now may be executed and count: the connection is neither
    /// broken nor stale.
    pub(crate) fn is_usable(&self) -> bool {
        !self.state.broken.load(Ordering::Acquire) && !self.state.is_stale()
    }

    /// Whether the connection is usable and not suspect.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_usable() && self.state.missing.load(Ordering::Relaxed) < MAX_MISSING
    }

    /// The address of the server, as other nodes use it.
    pub(crate) fn address(&self) -> &str {
        &self.state.address
    }

    /// The failover epoch of the server; 0 without sentinels.
    pub(crate) fn epoch(&self) -> u64 {
        self.state.epoch
    }

    pub(super) fn replication(&self) -> Replication {
        self.state.replication
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// How long the last batch of renewals took; at first, the last command of the handshake.
    pub(super) fn pace(&self) -> Duration {
        *lock(&self.state.pace)
    }

    pub(super) fn set_pace(&self, pace: Duration) {
        *lock(&self.state.pace) = pace;
    }

    pub(super) fn unacknowledged(&self) -> &Mutex<Unacknowledged> {
        &self.state.unacknowledged
    }

    /// Records that a reply is late.
    pub(super) fn note_missing_reply(&self) {
        self.state.missing.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether this is the first call of `script` on this connection.
    pub(super) fn is_first_call(&self, script: &'static str) -> bool {
        let mut called = lock(&self.state.called);
        let is_first = called.iter().all(|known| !ptr::eq(*known, script));
        if is_first {
            called.push(script);
        }
        is_first
    }
}

impl State {
    pub(super) fn new(properties: Properties) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let Properties {
            address,
            epoch,
            newest_epoch,
            replication,
            client_name,
            no_push,
            warned_no_push,
        } = properties;
        let (broken, disconnected, missing, pace, unacknowledged, called) = Default::default();
        Self {
            id,
            address,
            epoch,
            newest_epoch,
            replication,
            broken,
            disconnected,
            missing,
            pace,
            unacknowledged,
            called,
            inbox: format!("{client_name}:{id}"),
            no_push: OnceCell::new_with(no_push.map(Some)),
            warned_no_push,
        }
    }

    /// Records that the connection is broken.
    pub(super) fn disconnect(&self) {
        self.broken.store(true, Ordering::Release);
        self.disconnected.notify_waiters();
    }

    /// Whether the server was demoted after the connection was made.
    fn is_stale(&self) -> bool {
        self.epoch < *self.newest_epoch.borrow()
    }

    /// Records what a reply, or its absence, says about the connection.
    fn record_reply<T>(&self, reply: &Result<T, RedisError>) {
        match reply {
            Err(error) if error.is_timeout() => drop(self.missing.fetch_add(1, Ordering::Relaxed)),
            Err(error) if error::breaks_connection(error) => {
                self.broken.store(true, Ordering::Release);
            }
            _ => self.missing.store(0, Ordering::Relaxed),
        }
    }

    /// Fails if the server is no longer the master, because its replies no longer count.
    fn check_epoch(&self) -> Result<(), ClientError> {
        if self.is_stale() {
            let Self { address, .. } = self;
            return Err(ClientError::disconnected(format!("{address} is no longer the master")));
        }
        Ok(())
    }
}

/// One value for each open connection, dropped with the connection.
#[derive(Debug)]
pub(crate) struct PerConnection<T>(Mutex<BTreeMap<u64, Entry<T>>>);

type Entry<T> = (Weak<State>, Arc<T>);

impl<T> Default for PerConnection<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> PerConnection<T> {
    /// Returns the value of a connection, which `new` creates the first time.
    pub(crate) fn of(&self, connection: &Connection, new: impl FnOnce() -> T) -> Arc<T> {
        let mut values = lock(&self.0);
        if let Some((_, value)) = values.get(&connection.state.id) {
            return Arc::clone(value);
        }
        values.retain(|_, (state, _)| state.strong_count() > 0);
        let (state, value) = (Arc::downgrade(&connection.state), Arc::new(new()));
        values.insert(connection.state.id, (state, Arc::clone(&value)));
        value
    }
}
