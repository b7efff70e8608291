//! [`Pool`]: the connections to one server, one for each runtime, replaced when they are dead.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime;
use tokio::task::AbortHandle;

use super::connection::Connection;
use super::connector::{Config, Connector, Target};
use super::error::ClientError;
use super::single_flight::SingleFlight;
use crate::sync::{NO_RUNTIME, lock};

/// The connections to one server.
#[derive(Debug)]
pub(crate) struct Pool {
    connector: Arc<Connector>,
    /// A `Vec`, because there are few runtimes.
    by_runtime: Mutex<Vec<(runtime::Id, Arc<RuntimeConnection>)>>,
}

impl Pool {
    pub(crate) fn new(target: Target, config: Arc<Config>) -> Self {
        Self { connector: Arc::new(Connector::new(target, config)), by_runtime: Mutex::default() }
    }

    /// Returns a healthy connection for the current runtime, connecting if necessary.
    pub(crate) async fn connection(&self) -> Result<Connection, ClientError> {
        self.of_current_runtime()?.connection().await
    }

    fn of_current_runtime(&self) -> Result<Arc<RuntimeConnection>, ClientError> {
        let runtime = current_runtime()?;
        let mut by_runtime = lock(&self.by_runtime);
        let found = by_runtime.iter().find(|(id, _)| *id == runtime.id());
        if let Some((_, entry)) = found.filter(|(_, entry)| !entry.has_ended()) {
            return Ok(Arc::clone(entry));
        }
        by_runtime.retain(|(_, entry)| !entry.has_ended());
        let entry = Arc::new(RuntimeConnection::new(Arc::clone(&self.connector), &runtime));
        by_runtime.push((runtime.id(), Arc::clone(&entry)));
        Ok(entry)
    }
}

/// The connection of one runtime. A broken connection is replaced when it is needed next.
#[derive(Debug)]
struct RuntimeConnection {
    connector: Arc<Connector>,
    current: Mutex<Option<Connection>>,
    connecting: SingleFlight<ClientError>,
    runtime_ended: Arc<AtomicBool>,
    runtime_watch: AbortHandle,
}

impl RuntimeConnection {
    fn new(connector: Arc<Connector>, runtime: &runtime::Handle) -> Self {
        /// Dropped when the runtime ends, which takes the driver of the connection with it.
        struct End(Arc<AtomicBool>);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }

        let runtime_ended = Arc::new(AtomicBool::new(false));
        let end = End(Arc::clone(&runtime_ended));
        let watch = runtime.spawn(async move {
            let _end = end;
            std::future::pending::<()>().await;
        });
        let (current, connecting) = Default::default();
        Self { connector, current, connecting, runtime_ended, runtime_watch: watch.abort_handle() }
    }

    /// Whether the runtime has ended, and the connection with it.
    fn has_ended(&self) -> bool {
        self.runtime_ended.load(Ordering::Acquire)
    }

    async fn connection(&self) -> Result<Connection, ClientError> {
        if let Some(connection) = self.healthy() {
            return Ok(connection);
        }
        let connect = async || {
            let connected = self.connector.connect().await;
            if let Ok(connection) = &connected {
                *lock(&self.current) = Some(connection.clone());
            }
            connected
        };
        self.connecting.run(|| self.healthy(), connect).await
    }

    fn healthy(&self) -> Option<Connection> {
        lock(&self.current).clone().filter(Connection::is_healthy)
    }
}

impl Drop for RuntimeConnection {
    fn drop(&mut self) {
        self.runtime_watch.abort();
    }
}

/// The runtime that this is called on. Tokio panics where its timers or sockets are used without
/// one.
pub(crate) fn current_runtime() -> Result<runtime::Handle, ClientError> {
    runtime::Handle::try_current().map_err(|_| ClientError::refused(NO_RUNTIME))
}
