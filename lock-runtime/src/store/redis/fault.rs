//! What an error of the `redis` crate says about the command: whether it was executed, whether
//! asking again may help, and what a person can do about it.

use std::error::Error;

use redis::{ErrorKind, RedisError};

use crate::store::StoreError;

/// Codes of error replies to commands that were not executed, but may be later.
const LATER: [&str; 12] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "TRYAGAIN",
];

/// Codes of error replies to commands that were not executed, and never will be.
const NEVER: [&str; 6] = ["CROSSSLOT", "FENCE", "NOAUTH", "NOPERM", "WRONGPASS", "WRONGTYPE"];

/// Why there is no connection.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum ConnectError {
    /// What the server, or the way to it, said.
    #[error(transparent)]
    Server(RedisError),
    /// The sentinels know no master, for now.
    #[error("{0}")]
    NoMaster(String),
    /// The sentinels refuse, or do not know the service.
    #[error("{0}")]
    Forbidden(String),
}

/// An error while connecting: no command was executed.
pub(super) fn connecting(error: ConnectError) -> StoreError {
    let error = match error {
        ConnectError::Server(error) => error,
        ConnectError::NoMaster(why) => return StoreError::NotExecuted(why.into()),
        ConnectError::Forbidden(why) => return StoreError::Refused(why.into()),
    };
    match error.kind() {
        _ if is_refusal(&error) => StoreError::Refused(explained(error)),
        ErrorKind::Parse => {
            StoreError::NotExecuted("the server does not speak the Redis protocol".into())
        }
        _ if error.is_timeout() => StoreError::NotExecuted("no connection in time".into()),
        _ => StoreError::NotExecuted(explained(error)),
    }
}

/// Whether connecting fails for a reason that stays.
pub(super) fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), Some("WRONGPASS" | "NOAUTH" | "NOPERM"))
        || matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig)
}

/// An error after a command was handed to the connection.
pub(super) fn sending(error: RedisError) -> StoreError {
    match error.code() {
        Some(code) if LATER.contains(&code) => StoreError::NotExecuted(explained(error)),
        Some(code) if NEVER.contains(&code) || is_forbidden_in_script(&error) => {
            StoreError::Refused(explained(error))
        }
        None if error.is_timeout() => StoreError::no_answer(),
        None if error.is_io_error() => StoreError::Disconnected(error.into()),
        // Also codes that are not listed: a proxy may have passed the command on before it failed.
        _ => StoreError::Unknown(error.into()),
    }
}

/// Whether a script ran a command that the user may not run. There is no code for that: Redis 7.0
/// says the first, later ones and Valkey the second.
fn is_forbidden_in_script(error: &RedisError) -> bool {
    let says = ["The user executing the script can't", "ACL failure in script"];
    error.detail().is_some_and(|detail| says.iter().any(|start| detail.starts_with(start)))
}

/// Whether the connection is of no use after this error. A read-only server is one that was
/// demoted, and its name may lead to the new primary by now; one that asks for a login has
/// forgotten the one that was made.
pub(super) fn breaks_connection(error: &RedisError) -> bool {
    match error.code() {
        Some(code) => matches!(code, "READONLY" | "NOAUTH"),
        None => !error.is_timeout(),
    }
}

/// Whether the server does not know RESP3: Redis before 6, and some proxies.
pub(super) fn is_resp3_unknown(error: &RedisError) -> bool {
    let unknown_hello = error.detail().is_some_and(|detail| {
        let detail = detail.to_ascii_lowercase();
        detail.contains("unknown command") && detail.contains("hello")
    });
    error.kind() == ErrorKind::RESP3NotSupported || error.code() == Some("NOPROTO") || unknown_hello
}

/// Whether the server has to be sent the script in full.
pub(super) fn is_script_unknown(error: &StoreError) -> bool {
    redis_error(error).is_some_and(|error| error.code() == Some("NOSCRIPT"))
}

/// Where in a cluster a command should have gone.
#[derive(Debug, PartialEq)]
pub(super) enum Redirection {
    /// To the server of this address, as others of its slot.
    Moved(String),
    /// To the server of this address, this once.
    Ask(String),
    /// To the same server, a little later: keys of its slot are being moved.
    TryAgain,
}

/// Where a cluster redirects to.
pub(super) fn redirection(error: &StoreError) -> Option<Redirection> {
    let error = redis_error(error)?;
    let address = || error.redirect_node().map(|(address, _)| address.to_owned());
    match error.code()? {
        "MOVED" => address().map(Redirection::Moved),
        "ASK" => address().map(Redirection::Ask),
        "TRYAGAIN" => Some(Redirection::TryAgain),
        _ => None,
    }
}

fn redis_error(error: &StoreError) -> Option<&RedisError> {
    let StoreError::NotExecuted(source) = error else { return None };
    let explained = || source.downcast_ref().map(|Explained { error, .. }| error);
    source.downcast_ref().or_else(explained)
}

/// The same error, with the address of the server that it is about.
pub(super) fn at(address: &str, error: StoreError) -> StoreError {
    let located = |source| Box::new(Located { address: address.to_owned(), source });
    match error {
        StoreError::Refused(source) => StoreError::Refused(located(source)),
        StoreError::NotExecuted(source) => StoreError::NotExecuted(located(source)),
        StoreError::Disconnected(source) => StoreError::Disconnected(located(source)),
        StoreError::Unknown(source) => StoreError::Unknown(located(source)),
    }
}

/// An error of one of several servers.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {source}")]
struct Located {
    address: String,
    source: Box<dyn Error + Send + Sync>,
}

/// An error, and what can be done about it.
#[derive(Debug, thiserror::Error)]
#[error("{error}; {help}")]
struct Explained {
    #[source]
    error: RedisError,
    help: &'static str,
}

fn explained(error: RedisError) -> Box<dyn Error + Send + Sync> {
    let help = match error.code() {
        Some("WRONGPASS" | "NOAUTH") => "check the user and the password of the URL",
        code if code == Some("NOPERM") || is_forbidden_in_script(&error) => {
            "the permissions that a user needs are in the guide, under `In Redis`"
        }
        Some("MOVED") => "this is a server of a cluster, use redis-cluster://",
        Some("ASK" | "TRYAGAIN") => "its slot is being moved to another server",
        Some("CLUSTERDOWN") => "a part of the cluster is missing",
        Some("READONLY") => "this is a replica, use the address of its primary",
        Some("FENCE") => "delete it unless it belongs to something else",
        Some("WRONGTYPE") => {
            "a name that belongs to the lock is used for something else: \
             `{key}:waiters`, `{key}:peers` or `lock-runtime:fence`"
        }
        Some("OOM") => "the server's `maxmemory` is reached",
        Some("MISCONF" | "NOREPLICAS") => "the server accepts no writes in this state",
        None if error.is_connection_refusal() => "is a server running there?",
        _ => return error.into(),
    };
    Explained { error, help }.into()
}
