//! Answers of web frameworks to a failed lock (features `axum` and `actix-web`).
//!
//! | error | status |
//! | --- | --- |
//! | busy | 409 Conflict, with `Retry-After` in seconds when it is known when the lease ends |
//! | unavailable, lost, no store | 503 Service Unavailable |
//! | a key that cannot be a lock, because of an empty value for example | 400 Bad Request |
//! | held already, bad options | 500 Internal Server Error |
//!
//! The body is one line of plain text that names neither key nor server; those belong into logs.

use std::time::Duration;

use crate::LockError;

/// What to tell a client.
struct Answer {
    status: u16,
    retry_after: Option<u64>,
    text: &'static str,
}

impl From<&LockError> for Answer {
    fn from(error: &LockError) -> Self {
        let (status, text) = match error {
            LockError::Busy { .. } => (409, "somebody else is at it, try again later"),
            LockError::Lost { .. } => {
                (503, "the lock was lost on the way, the work may be half done")
            }
            LockError::Unavailable { .. } | LockError::NotConfigured { .. } => {
                (503, "locks are not available")
            }
            LockError::InvalidKey { .. } => (400, "this cannot be locked"),
            LockError::AlreadyHeld { .. } | LockError::InvalidOption { .. } => {
                (500, "a lock is used wrongly")
            }
        };
        let retry_after = match error {
            LockError::Busy { retry_after, .. } => retry_after.map(whole_seconds),
            _ => None,
        };
        Self { status, retry_after, text }
    }
}

/// Rounded up, and at least one: `Retry-After: 0` would invite a storm.
fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

#[cfg(feature = "axum")]
mod axum {
    use axum_core::response::{IntoResponse, Response};
    use http::{HeaderValue, StatusCode, header};

    use super::Answer;
    use crate::{LockError, Outcome};

    impl IntoResponse for LockError {
        fn into_response(self) -> Response {
            let Answer { status, retry_after, text } = Answer::from(&self);
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

    use super::Answer;
    use crate::{LockError, Outcome};

    impl ResponseError for LockError {
        fn status_code(&self) -> StatusCode {
            StatusCode::from_u16(Answer::from(self).status)
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }

        fn error_response(&self) -> HttpResponse {
            let Answer { retry_after, text, .. } = Answer::from(self);
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

    fn answer(retry_after: Option<Duration>) -> Answer {
        Answer::from(&LockError::Busy {
            key: "k".into(),
            waited: Duration::ZERO,
            holder: None,
            retry_after,
        })
    }

    #[test]
    fn busy_is_a_conflict_and_says_when_to_try_again() {
        assert_eq!(answer(None).status, 409);
        assert_eq!(answer(None).retry_after, None);
        assert_eq!(answer(Some(Duration::from_millis(2_001))).retry_after, Some(3));
        assert_eq!(answer(Some(Duration::ZERO)).retry_after, Some(1));
    }
}
