//! [`StoreError`]: why a store did not carry out a request.

use std::error::Error;

/// Why a store did not carry out a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The request was not executed, and a retry cannot help: wrong password, missing permission.
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
    /// The request was not executed, and a retry may help: server down, loading, read-only.
    #[error(transparent)]
    NotExecuted(Box<dyn Error + Send + Sync>),
    /// The connection broke before the reply: the request may have been executed.
    #[error(transparent)]
    Disconnected(Box<dyn Error + Send + Sync>),
    /// The reply did not arrive in time, or makes no sense: the request may have been executed.
    #[error(transparent)]
    Unknown(Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// The error of a request whose reply did not arrive in time.
    pub(crate) fn no_reply() -> Self {
        Self::Unknown("no reply in time".into())
    }

    /// Whether the request may have been executed, or may still be.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        matches!(self, Self::Disconnected(_) | Self::Unknown(_))
    }
}
