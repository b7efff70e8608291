//! What an error of the `redis` crate says about the command: whether it was executed, and whether
//! asking again may help.

use redis::{ErrorKind, RedisError};

use crate::store::StoreError;

/// Codes of error replies to commands that were not executed, but may be later.
const LATER: [&str; 11] = [
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
];

/// An error while connecting: no command was executed.
pub(super) fn connecting(error: RedisError) -> StoreError {
    let refused = matches!(error.code(), Some("WRONGPASS" | "NOAUTH" | "NOPERM"))
        || matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig);
    match error.kind() {
        _ if refused => StoreError::Refused(error.into()),
        ErrorKind::Parse => {
            StoreError::NotExecuted("the server does not speak the Redis protocol".into())
        }
        _ if error.is_timeout() => {
            StoreError::NotExecuted("no connection within the timeout".into())
        }
        _ => StoreError::NotExecuted(error.into()),
    }
}

/// An error after a command was handed to the connection.
pub(super) fn sending(error: RedisError) -> StoreError {
    match error.code() {
        Some(code) if LATER.contains(&code) => StoreError::NotExecuted(error.into()),
        Some(_) => StoreError::Refused(error.into()),
        None if error.is_timeout() => StoreError::Unknown("no answer within the timeout".into()),
        None if error.is_io_error() => StoreError::Disconnected(error.into()),
        None => StoreError::Unknown(error.into()),
    }
}

/// Whether the connection is of no use after this error. A read-only server is one that was
/// demoted; its name may lead to the new primary by now.
pub(super) fn breaks_connection(error: &RedisError) -> bool {
    let readonly = error.code() == Some("READONLY");
    readonly || (error.code().is_none() && !error.is_timeout())
}

/// Whether the server does not know RESP3: Redis before 6, and some proxies.
pub(super) fn is_resp3_unknown(error: &RedisError) -> bool {
    let said =
        |word| error.detail().is_some_and(|detail| detail.to_ascii_uppercase().contains(word));
    error.kind() == ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || said("UNKNOWN COMMAND 'HELLO'")
}
