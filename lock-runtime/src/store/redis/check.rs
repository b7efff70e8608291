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

/// Makes sure that a server answers, that it is one, that it takes writes, runs scripts and has the replicas.
/// Warns of settings by which it may forget locks.
pub(in crate::store) async fn server(
    line: &Line,
    store: &str,
    kind: Kind,
) -> Result<(), StoreError> {
    let mut questions = redis::pipe();
    questions.cmd("PING").cmd("EVAL").arg("return 1").arg(0).cmd("INFO");
    let wait = line.wait();
    let waits = wait.is_some();
    if let Some(wait) = wait {
        questions.add_command(wait);
    }
    let mut answers = line.send(&questions).await?;
    if waits {
        has_replicas(line, answers.pop())?;
    }
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
    if field("role") == Some("slave") && kind == Kind::Alone {
        let what = "this is a replica, which takes no writes; use the address of its primary";
        return Err(StoreError::Refused(what.into()));
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

/// Makes sure that there are as many replicas as the manager asks for, by what the server answers to `WAIT`.
fn has_replicas(line: &Line, answer: Option<Result<Value, StoreError>>) -> Result<(), StoreError> {
    let wanted = line.replicas();
    match answer.transpose()? {
        Some(Value::Int(found)) if found < i64::from(wanted) => Err(StoreError::Refused(
            format!(
                "it has {found} of the {wanted} replicas that `replicas` asks for; \
                 start more, or ask for fewer"
            )
            .into(),
        )),
        Some(Value::Int(_)) => Ok(()),
        other => Err(unexpected(&other.unwrap_or(Value::Nil))),
    }
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
