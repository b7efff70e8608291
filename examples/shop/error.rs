//! [`AppError`]: what the shop answers when it cannot serve.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lock_runtime::LockError;
use tokio::task::JoinError;

/// Why a request was not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    #[error("there is no such thing here")]
    NotFound,

    #[error("sold out")]
    SoldOut,

    #[error("this order is paid already")]
    AlreadyPaid,

    /// With this variant a locked function can return an `AppError`.
    #[error(transparent)]
    Lock(#[from] LockError),

    #[error("the database failed: {0}")]
    Database(#[source] rusqlite::Error),

    #[error("a call of the database did not end: {0}")]
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
            // A busy lock becomes 409 with `Retry-After`, locks out of reach become 503.
            Self::Lock(error) => return error.into_response(),
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::SoldOut => StatusCode::GONE,
            Self::AlreadyPaid => StatusCode::CONFLICT,
            Self::Database(_) | Self::Interrupted(_) => {
                tracing::error!(error = %self, "a request failed");
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
        };
        (status, self.to_string()).into_response()
    }
}
