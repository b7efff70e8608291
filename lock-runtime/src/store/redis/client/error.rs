//! [`ClientError`]: why a command failed, whether it was executed, whether a retry may help, and
//! what an operator can do about it.

use std::fmt;

use redis::{ConnectionInfo, ErrorKind, RedisError, Value};

/// Codes of error replies to commands that were not executed; a retry may succeed.
const TEMPORARY: [&str; 8] =
    ["BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY"];

/// Codes of error replies to commands that were not executed; no retry succeeds.
const PERMANENT: [&str; 6] = ["CROSSSLOT", "FENCE", "NOAUTH", "NOPERM", "WRONGPASS", "WRONGTYPE"];

/// The reply to one command.
pub(crate) type Reply = Result<Value, ClientError>;

/// Why a command failed, or why there is no connection.
#[derive(Debug, Clone)]
pub(crate) struct ClientError {
    pub(crate) kind: Kind,
    message: String,
}

/// What is known about the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not executed: the node at this address owns the slot.
    Moved(String),
    /// Not executed: the slot is being moved to the node at this address, which executes this
    /// command.
    Ask(String),
    /// Not executed: the keys of the slot are being moved.
    TryAgain,
    /// Not executed: the server needs the script in full.
    NoScript,
    /// Not executed, and a retry cannot help.
    Refused,
    /// Not executed, and a retry may help.
    NotExecuted,
    /// The connection broke before the reply.
    Disconnected,
    /// The reply is missing or makes no sense.
    Unknown,
}

impl ClientError {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    pub(crate) fn not_executed(message: impl Into<String>) -> Self {
        Self::new(Kind::NotExecuted, message)
    }

    pub(crate) fn disconnected(message: impl Into<String>) -> Self {
        Self::new(Kind::Disconnected, message)
    }

    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(Kind::Unknown, message)
    }

    /// The error of a command whose reply did not arrive in time.
    pub(crate) fn no_reply() -> Self {
        Self::unknown("no reply in time")
    }

    /// The error of a reply that no Redis server sends.
    pub(crate) fn unexpected(reply: &Value) -> Self {
        Self::unknown(format!("unexpected reply from the server: {reply:?}"))
    }

    /// Classifies an error while connecting with these settings: no command was executed.
    pub(crate) fn connecting(error: &RedisError, settings: &ConnectionInfo) -> Self {
        match error.kind() {
            _ if quotes_password(error, settings) => {
                Self::refused("the server does not accept the login")
            }
            _ if is_refusal(error) => Self::refused(explained(error)),
            ErrorKind::Parse => Self::not_executed("the server does not speak the Redis protocol"),
            _ if error.is_timeout() => Self::not_executed("no connection in time"),
            _ => Self::not_executed(explained(error)),
        }
    }

    /// Classifies an error after a command was passed to the connection.
    pub(crate) fn sending(error: &RedisError) -> Self {
        let node = || error.redirect_node().map(|(address, _)| address.to_owned());
        let kind = match error.code() {
            Some("MOVED") => node().map_or(Kind::NotExecuted, Kind::Moved),
            Some("ASK") => node().map_or(Kind::NotExecuted, Kind::Ask),
            Some("TRYAGAIN") => Kind::TryAgain,
            Some("NOSCRIPT") => Kind::NoScript,
            Some(code) if TEMPORARY.contains(&code) => Kind::NotExecuted,
            Some(code) if PERMANENT.contains(&code) || is_forbidden_in_script(error) => {
                Kind::Refused
            }
            None if error.is_timeout() => return Self::no_reply(),
            None if error.is_io_error() => Kind::Disconnected,
            // Also unlisted codes: a proxy may have forwarded the command before it failed.
            _ => Kind::Unknown,
        };
        Self::new(kind, explained(error))
    }

    /// Adds the address of the server that reported the error.
    pub(crate) fn at(self, address: &str) -> Self {
        Self { message: format!("{address}: {}", self.message), ..self }
    }

    /// Whether the command may have been executed, or may still be.
    pub(crate) fn may_have_run(&self) -> bool {
        matches!(self.kind, Kind::Disconnected | Kind::Unknown)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClientError {}

/// Whether the error contains the password: some servers quote the command that they reject.
pub(crate) fn quotes_password(error: &RedisError, settings: &ConnectionInfo) -> bool {
    let password = settings.redis_settings().password().filter(|password| !password.is_empty());
    password.is_some_and(|password| error.to_string().contains(password))
}

/// Whether connecting failed for a permanent reason.
pub(crate) fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), Some("WRONGPASS" | "NOAUTH" | "NOPERM"))
        || matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig)
}

/// Whether a script ran a command without permission. There is no error code for this: the first
/// text is that of Redis 7.0, the second that of later versions and of Valkey.
fn is_forbidden_in_script(error: &RedisError) -> bool {
    let texts = ["The user executing the script can't", "ACL failure in script"];
    error.detail().is_some_and(|detail| texts.iter().any(|text| detail.starts_with(text)))
}

/// Whether the connection is useless after this error. A read-only server was demoted, and its name
/// may lead to the new master by now; a server that demands a login has forgotten the previous one.
pub(crate) fn breaks_connection(error: &RedisError) -> bool {
    match error.code() {
        Some(code) => matches!(code, "READONLY" | "NOAUTH"),
        None => !error.is_timeout(),
    }
}

/// Whether the server does not know RESP3: Redis before 6, and some proxies.
pub(crate) fn is_resp3_unknown(error: &RedisError) -> bool {
    let unknown_hello = error.detail().is_some_and(|detail| {
        let detail = detail.to_ascii_lowercase();
        detail.contains("unknown command") && detail.contains("hello")
    });
    error.kind() == ErrorKind::RESP3NotSupported || error.code() == Some("NOPROTO") || unknown_hello
}

/// The text of an error, with advice if there is any.
fn explained(error: &RedisError) -> String {
    let advice = match error.code() {
        Some("WRONGPASS" | "NOAUTH") => "check the user and the password of the URL",
        code if code == Some("NOPERM") || is_forbidden_in_script(error) => {
            "the guide lists the required permissions under `In Redis`"
        }
        Some("MOVED") => "this server is a cluster node; use redis-cluster://",
        Some("ASK" | "TRYAGAIN") => "its slot is being moved to another node",
        Some("CLUSTERDOWN") => "a part of the cluster is missing",
        Some("READONLY") => "this server is a replica; use the address of its master",
        Some("FENCE") => "delete the key unless something else uses it",
        Some("WRONGTYPE") => {
            "a helper key of the lock is used for something else: \
             `{key}:waiters`, `{key}:peers` or `lock-runtime:fence`"
        }
        Some("OOM") => "the server has reached its `maxmemory`",
        Some("MISCONF" | "NOREPLICAS") => "the server accepts no writes in this state",
        None if error.is_connection_refusal() => "is a server running there?",
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

#[cfg(test)]
mod tests {
    use std::io;

    use redis::IntoConnectionInfo as _;

    use super::*;

    fn connecting(error: impl Into<RedisError>, url: &str) -> ClientError {
        ClientError::connecting(&error.into(), &url.into_connection_info().unwrap())
    }

    #[test]
    fn hides_a_password_that_the_server_quotes() {
        let quoted = (ErrorKind::Io, "rejected", "HELLO 3 AUTH default hunter2".to_owned());
        let error = connecting(quoted, "redis://:hunter2@a");
        assert_eq!(error.kind, Kind::Refused);
        assert_eq!(error.to_string(), "the server does not accept the login");
    }

    #[test]
    fn does_not_take_advice_for_a_quoted_password() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = connecting(refused, "redis://:server@a");
        assert_eq!(error.kind, Kind::NotExecuted);
        assert!(error.to_string().ends_with("is a server running there?"), "{error}");
    }
}
