//! What a server has to be before locks are kept in it.

use redis::Value;

use super::answer::unexpected;
use super::line::Line;
use crate::store::StoreError;

/// What a server is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Kind {
    /// One that keeps all locks that it is asked for.
    Alone,
    /// One that keeps those of its slots.
    OfCluster,
}

/// Makes sure that a server answers, that it is one, that it runs scripts and has the replicas. Warns of
/// settings by which it may forget locks.
pub(in crate::store) async fn server(
    line: &Line,
    store: &str,
    kind: Kind,
) -> Result<(), StoreError> {
    let mut questions = redis::pipe();
    questions.cmd("PING").cmd("EVAL").arg("return 1").arg(0).cmd("INFO");
    let answers = line.send(&questions).await?;
    let Ok([pong, script, info]) = <[_; 3]>::try_from(answers) else {
        return Err(unexpected(&Value::Nil));
    };
    match pong? {
        Value::SimpleString(pong) if pong == "PONG" => {}
        other => return Err(unexpected(&other)),
    }
    script?;
    // Who may not ask is not told.
    let Ok(info) = info else { return Ok(()) };
    let field = |name| self::info(&info, name);
    if field("cluster_enabled") == Some("1") && kind == Kind::Alone {
        let what = "this is a server of a cluster; use redis-cluster://";
        return Err(StoreError::Refused(what.into()));
    }
    let wanted = line.replicas();
    if let Some(found) = field("connected_slaves").and_then(|number| number.parse().ok())
        && wanted > found
    {
        let missing = format!(
            "it has {found} of the {wanted} replicas that `replicas` asks for; \
             start more, or ask for fewer"
        );
        return Err(StoreError::Refused(missing.into()));
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

/// A field of an answer to `INFO`.
pub(in crate::store) fn info<'a>(info: &'a Value, name: &str) -> Option<&'a str> {
    let text = match info {
        Value::BulkString(text) => std::str::from_utf8(text).ok()?,
        Value::VerbatimString { text, .. } => text,
        _ => return None,
    };
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}
