//! The checks that a server has to pass before it is used.

use redis::{ConnectionInfo, Value};

use super::connection::Connection;
use super::error::ClientError;
use super::replication::WrittenTogether;

/// The role that a server plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It keeps all keys.
    Standalone,
    /// It keeps the keys of its slots.
    ClusterNode,
}

/// Checks that a server replies, is a Redis server, accepts writes, runs scripts and has the
/// required replicas. Warns of settings that let it evict keys.
pub(crate) async fn verify(
    connection: &Connection,
    store: &str,
    role: Role,
) -> Result<(), ClientError> {
    let mut requests = redis::pipe();
    requests.cmd("PING").cmd("EVAL").arg("return 1").arg(0).cmd("INFO");
    let WrittenTogether { replies, acknowledgement } = connection.write_together(requests).await?;
    acknowledgement.check_at_start()?;
    let Ok([pong, script, info]) = <[_; 3]>::try_from(replies) else {
        return Err(ClientError::unexpected(&Value::Nil));
    };
    match pong? {
        Value::SimpleString(pong) if pong == "PONG" => {}
        other => return Err(ClientError::unexpected(&other)),
    }
    script?;
    // Without permission for `INFO`, the remaining checks are skipped.
    let Ok(info) = info else { return Ok(()) };
    let field = |name| self::field(&info, name);
    if field("cluster_enabled") == Some("1") && role == Role::Standalone {
        return Err(ClientError::refused("this server is a cluster node; use redis-cluster://"));
    }
    if field("role") == Some("slave") && role == Role::Standalone {
        let what =
            "this server is a replica, which accepts no writes; use the address of its master";
        return Err(ClientError::refused(what));
    }
    let policy = field("maxmemory_policy").filter(|policy| *policy != "noeviction");
    if let Some(policy) = policy
        && field("maxmemory") != Some("0")
    {
        tracing::warn!(
            store,
            policy,
            "the server may evict locks when its memory is full; set `maxmemory-policy noeviction`"
        );
    }
    Ok(())
}

/// Checks that a server that the sentinels reported is a master. Without permission for `INFO`, the first
/// write shows it.
pub(super) async fn require_master(
    connection: &Connection,
    settings: &ConnectionInfo,
) -> Result<(), ClientError> {
    let request = redis::cmd("INFO").arg("replication").take();
    match connection.call_stale(&request).await {
        Ok(info) if field(&info, "role").is_some_and(|role| role != "master") => {
            let address = connection.address();
            Err(ClientError::not_executed(format!("{address} is not a master yet")))
        }
        Err(error) if error.code().is_none() => Err(ClientError::connecting(&error, settings)),
        _ => Ok(()),
    }
}

/// A field of a reply to `INFO`.
pub(crate) fn field<'a>(info: &'a Value, name: &str) -> Option<&'a str> {
    let text = match info {
        Value::BulkString(text) => std::str::from_utf8(text).ok()?,
        Value::VerbatimString { text, .. } => text,
        _ => return None,
    };
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}
