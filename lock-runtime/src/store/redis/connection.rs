//! Connections to one server: one for each runtime that uses it, replaced when it is dead.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime;
use tokio::task::AbortHandle;

use super::fault::ConnectError;
use super::line::Line;
use super::server::{Common, Place, Server};
use crate::store::{StoreError, current_runtime};

/// The connections to one server.
#[derive(Debug)]
pub(in crate::store) struct Connections {
    server: Arc<Server>,
    /// A list, because there are few.
    by_runtime: Mutex<Vec<(runtime::Id, Arc<Connection>)>>,
}

impl Connections {
    pub(in crate::store) fn new(place: Place, common: Arc<Common>) -> Self {
        Self { server: Arc::new(Server::new(place, common)), by_runtime: Mutex::default() }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// A line of the runtime this is called on, which works, as far as anybody knows.
    pub(in crate::store) async fn line(&self) -> Result<Line, StoreError> {
        self.here()?.line().await
    }

    /// Has the server tell its epoch again, on all lines.
    pub(super) fn doubt_epoch(&self) {
        for (_, connection) in &*self.by_runtime() {
            if let Some(line) = connection.current_line() {
                line.doubt_epoch();
            }
        }
    }

    /// The connection of the runtime this is called on.
    fn here(&self) -> Result<Arc<Connection>, StoreError> {
        let runtime = current_runtime()?;
        let mut by_runtime = self.by_runtime();
        let found = by_runtime.iter().find(|(id, _)| *id == runtime.id());
        if let Some((_, connection)) = found.filter(|(_, connection)| !connection.has_ended()) {
            return Ok(Arc::clone(connection));
        }
        by_runtime.retain(|(_, connection)| !connection.has_ended());
        let connection = Arc::new(Connection::new(Arc::clone(&self.server), &runtime));
        by_runtime.push((runtime.id(), Arc::clone(&connection)));
        Ok(connection)
    }

    fn by_runtime(&self) -> MutexGuard<'_, Vec<(runtime::Id, Arc<Connection>)>> {
        self.by_runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection of one runtime. A broken line is replaced when it is needed next.
#[derive(Debug)]
struct Connection {
    server: Arc<Server>,
    line: Mutex<Option<Line>>,
    /// How many attempts to connect were begun.
    attempts: AtomicU32,
    /// Held while connecting: which attempt failed last, and how.
    failure: tokio::sync::Mutex<Option<(u32, ConnectError)>>,
    runtime_ended: Arc<AtomicBool>,
    runtime_watch: AbortHandle,
}

impl Connection {
    fn new(server: Arc<Server>, runtime: &runtime::Handle) -> Self {
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
        Self {
            server,
            line: Mutex::default(),
            attempts: AtomicU32::new(0),
            failure: tokio::sync::Mutex::default(),
            runtime_ended,
            runtime_watch: watch.abort_handle(),
        }
    }

    /// Whether its runtime has ended, and the connection with it.
    fn has_ended(&self) -> bool {
        self.runtime_ended.load(Ordering::Acquire)
    }

    async fn line(&self) -> Result<Line, StoreError> {
        if let Some(line) = self.healthy_line() {
            return Ok(line);
        }
        let begun = self.attempts.load(Ordering::Relaxed);
        let mut failure = self.failure.lock().await;
        if let Some(line) = self.healthy_line() {
            return Ok(line);
        }
        // An attempt that was begun and failed while this call waited for its turn has the answer
        // for this call, too: a crowd does not wait for one timeout after the other.
        if let Some((attempt, error)) = &*failure
            && *attempt > begun
        {
            return Err(self.server.failure(error.clone()));
        }
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        match self.server.connect().await {
            Ok(line) => {
                *self.line.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
                Ok(line)
            }
            Err(error) => {
                *failure = Some((attempt, error.clone()));
                Err(self.server.failure(error))
            }
        }
    }

    fn healthy_line(&self) -> Option<Line> {
        self.current_line().filter(Line::is_good)
    }

    fn current_line(&self) -> Option<Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.runtime_watch.abort();
    }
}
