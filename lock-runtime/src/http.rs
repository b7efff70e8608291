//! HTTP responses to a lock failure (features `axum` and `actix-web`).
//!
//! | error | status |
//! | --- | --- |
//! | busy | 409 Conflict, with `Retry-After` in seconds if the end of the lease is known |
//! | unavailable, lost, no store | 503 Service Unavailable |
//! | a key that cannot name a lock, for example because of an empty value | 400 Bad Request |
//! | already held, invalid options | 500 Internal Server Error |
//!
//! The body is one line of plain text without key and server, which belong in logs.

use std::time::Duration;

use crate::error::LockError;

/// The HTTP response to a lock failure.
struct ErrorResponse {
    status: u16,
    retry_after: Option<u64>,
    text: &'static str,
}

impl From<&LockError> for ErrorResponse {
    fn from(error: &LockError) -> Self {
        let (status, text) = match error {
            LockError::Busy { .. } => (409, "another request holds this lock; try again later"),
            LockError::Lost { .. } => {
                (503, "the lock was lost during the request; the work may be half done")
            }
            LockError::Unavailable { .. } | LockError::NotConfigured { .. } => {
                (503, "locks are unavailable; try again later")
            }
            LockError::InvalidKey { .. } => {
                (400, "a value in this request cannot be part of a lock key")
            }
            LockError::AlreadyHeld { .. } | LockError::InvalidOption { .. } => {
                (500, "the server uses a lock incorrectly")
            }
        };
        let retry_after = match error {
            LockError::Busy { retry_after, .. } => retry_after.map(whole_seconds),
            _ => None,
        };
        Self { status, retry_after, text }
    }
}

/// Rounds up, to at least one: `Retry-After: 0` would invite a retry storm.
fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

#[cfg(feature = "axum")]
mod axum {
    use axum_core::response::{IntoResponse, Response};
    use http::{HeaderValue, StatusCode, header};

    use super::ErrorResponse;
    use crate::error::LockError;
    use crate::outcome::Outcome;

    impl IntoResponse for LockError {
        fn into_response(self) -> Response {
            let ErrorResponse { status, retry_after, text } = ErrorResponse::from(&self);
            let mut response = text.into_response();
            *response.status_mut() =
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            if let Some(seconds) = retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            response
        }
    }

    impl Outcome for Response {
        fn failed(error: LockError) -> Self {
            error.into_response()
        }

        fn is_failure(&self) -> bool {
            self.status().is_client_error() || self.status().is_server_error()
        }
    }
}

#[cfg(feature = "actix-web")]
mod actix_web {
    use actix_web::http::{StatusCode, header};
    use actix_web::{HttpResponse, ResponseError};

    use super::ErrorResponse;
    use crate::error::LockError;
    use crate::outcome::Outcome;

    impl ResponseError for LockError {
        fn status_code(&self) -> StatusCode {
            StatusCode::from_u16(ErrorResponse::from(self).status)
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }

        fn error_response(&self) -> HttpResponse {
            let ErrorResponse { retry_after, text, .. } = ErrorResponse::from(self);
            let mut response = HttpResponse::build(self.status_code());
            if let Some(seconds) = retry_after {
                response.insert_header((header::RETRY_AFTER, seconds));
            }
            response.content_type(header::ContentType::plaintext()).body(text)
        }
    }

    impl Outcome for HttpResponse {
        fn failed(error: LockError) -> Self {
            error.error_response()
        }

        fn is_failure(&self) -> bool {
            self.status().is_client_error() || self.status().is_server_error()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(retry_after: Option<Duration>) -> ErrorResponse {
        ErrorResponse::from(&LockError::Busy {
            key: "k".into(),
            waited: Duration::ZERO,
            holder: None,
            retry_after,
        })
    }

    #[test]
    fn busy_is_a_conflict_with_retry_after() {
        assert_eq!(busy(None).status, 409);
        assert_eq!(busy(None).retry_after, None);
        assert_eq!(busy(Some(Duration::from_millis(2_001))).retry_after, Some(3));
        assert_eq!(busy(Some(Duration::ZERO)).retry_after, Some(1));
    }
}
