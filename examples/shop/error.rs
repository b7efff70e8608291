//! [`AppError`] and the HTTP responses for it.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lock_runtime::LockError;
use tokio::task::JoinError;

/// The reasons why a request fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    #[error("not found")]
    NotFound,

    #[error("sold out")]
    SoldOut,

    #[error("this order has already been paid")]
    AlreadyPaid,

    /// Lets a function with the attribute return an `AppError`.
    #[error(transparent)]
    Lock(#[from] LockError),

    #[error("database error: {0}")]
    Database(#[source] rusqlite::Error),

    #[error("database task failed: {0}")]
    Interrupted(#[from] JoinError),
}

impl From<rusqlite::Error> for AppError {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::QueryReturnedNoRows => Self::NotFound,
            error => Self::Database(error),
        }
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        let status = match self {
            // A busy lock becomes a 409 with `Retry-After`, an unreachable Redis a 503.
            Self::Lock(error) => return error.into_response(),
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::SoldOut => StatusCode::GONE,
            Self::AlreadyPaid => StatusCode::CONFLICT,
            Self::Database(_) | Self::Interrupted(_) => {
                tracing::error!(error = %self, "request failed");
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
        };
        (status, self.to_string()).into_response()
    }
}
