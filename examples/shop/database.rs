//! The database file that all instances share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::error::AppError;

/// A connection to the database file, cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Database(Arc<Mutex<Connection>>);

impl Database {
    /// Opens the file, and creates and fills the tables that are missing.
    pub(crate) fn open(path: &Path, reset: bool) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        if reset {
            connection.execute_batch(include_str!("reset.sql"))?;
        }
        connection.execute_batch(include_str!("schema.sql"))?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Runs `work` as one transaction, on a thread that may block.
    ///
    /// Once begun, it runs to completion, even if the caller is dropped because it lost its lock.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T, AppError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let mut connection = Arc::clone(&self.0).lock_owned().await;
        let done = spawn_blocking(move || {
            let transaction = connection.transaction()?;
            let output = work(&transaction)?;
            transaction.commit()?;
            Ok(output)
        });
        done.await?
    }
}
