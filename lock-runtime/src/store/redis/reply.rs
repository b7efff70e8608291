//! The replies of the scripts.

#![allow(unreachable_pub, clippy::must_use_candidate, reason = "public for the model only")]

use std::time::Duration;

use redis::Value;

use super::client::error::ClientError;
use crate::fence::Fence;
use crate::store::Owned;

/// The reply of a script that acquires a lock.
#[derive(Debug, PartialEq)]
pub enum Acquisition {
    /// The token holds the lock. A cluster node may add its epoch.
    Granted(Fence, Option<NodeEpoch>),
    /// The token has a place in the queue.
    Queued(Queued),
    /// Another holder has the lock.
    Busy {
        /// The content of the key.
        holder: Option<Box<str>>,
        /// When the key expires; `None` if it never does.
        free_in: Option<Duration>,
    },
    /// The key holds something other than a lock.
    NotALock {
        /// The type of the key's content.
        kind: String,
    },
}

/// The reply to a request that did not get the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// How long from now to poll.
    pub poll_in: Duration,
    /// How long from now the lock is free at the latest, unless its holder renews it.
    pub free_in: Option<Duration>,
    /// A fence that no earlier grant exceeds, and every later grant does.
    pub last_fence: Fence,
}

/// The epoch of a cluster node, and when it was read, by the node's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeEpoch {
    /// The configuration epoch.
    pub epoch: u64,
    /// Microseconds since 1970.
    pub at: u64,
}

impl Acquisition {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// An error about a reply that no script sends.
    pub(crate) fn read(reply: &Value) -> Result<Self, ClientError> {
        let acquisition = match reply {
            Value::Int(number) => fence(*number).map(|fence| Self::Granted(fence, None)),
            Value::Array(parts) => Self::from_parts(parts),
            _ => None,
        };
        acquisition.ok_or_else(|| ClientError::unexpected(reply))
    }

    fn from_parts(parts: &[Value]) -> Option<Self> {
        match parts {
            [Value::Int(number), Value::BulkString(epoch)] => {
                Some(Self::Granted(fence(*number)?, Some(node_epoch(epoch)?)))
            }
            [Value::Int(poll_in), Value::Int(free_in), Value::Int(number)] => {
                let (last_fence, poll_in) = (fence(*number)?, duration(*poll_in)?);
                Some(Self::Queued(Queued { poll_in, free_in: duration(*free_in), last_fence }))
            }
            [Value::Nil, Value::Int(free_in)] => {
                Some(Self::Busy { holder: None, free_in: duration(*free_in) })
            }
            [Value::BulkString(holder), Value::Int(free_in)] => {
                let holder = Some(String::from_utf8_lossy(holder).into());
                Some(Self::Busy { holder, free_in: duration(*free_in) })
            }
            [Value::SimpleString(kind)] => Some(Self::NotALock { kind: kind.clone() }),
            _ => None,
        }
    }
}

/// Reads the reply of a script that renews, releases or confirms a lock.
pub(crate) fn owned(reply: &Value) -> Result<Owned, ClientError> {
    match reply {
        Value::Int(1) => Ok(Owned::Yes),
        Value::Int(0) => Ok(Owned::No),
        other => Err(ClientError::unexpected(other)),
    }
}

fn fence(number: i64) -> Option<Fence> {
    number.try_into().ok().map(Fence::new)
}

fn node_epoch(text: &[u8]) -> Option<NodeEpoch> {
    let (epoch, at) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some(NodeEpoch { epoch: epoch.parse().ok()?, at: at.parse().ok()? })
}

/// Reads milliseconds; -1 means never.
fn duration(ms: i64) -> Option<Duration> {
    ms.try_into().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn reads_replies_and_rejects_others() {
        let read = |parts: &[Value]| Acquisition::read(&Value::Array(parts.to_vec())).ok();
        let ms = Duration::from_millis;
        let fence = Fence::new(17);
        assert_eq!(
            Acquisition::read(&Value::Int(17)).ok(),
            Some(Acquisition::Granted(fence, None))
        );
        assert_eq!(
            read(&[Value::Int(17), text("3 42")]),
            Some(Acquisition::Granted(fence, Some(NodeEpoch { epoch: 3, at: 42 })))
        );
        let last_fence = Fence::new(16);
        assert_eq!(
            read(&[Value::Int(100), Value::Int(-1), Value::Int(16)]),
            Some(Acquisition::Queued(Queued { poll_in: ms(100), free_in: None, last_fence }))
        );
        assert_eq!(
            read(&[text("other"), Value::Int(5)]),
            Some(Acquisition::Busy { holder: Some("other".into()), free_in: Some(ms(5)) })
        );
        assert_eq!(
            read(&[Value::Nil, Value::Int(5)]),
            Some(Acquisition::Busy { holder: None, free_in: Some(ms(5)) })
        );
        assert_eq!(
            read(&[Value::SimpleString("hash".into())]),
            Some(Acquisition::NotALock { kind: "hash".into() })
        );
        let invalid = [
            Value::Nil,
            Value::Okay,
            Value::Int(-1),
            text("17"),
            Value::SimpleString("hash".into()),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(17)]),
            Value::Array(vec![Value::Int(17), text("3")]),
            Value::Array(vec![Value::Int(17), text("3 -1")]),
            Value::Array(vec![Value::Nil, Value::Nil]),
            Value::Array(vec![Value::Int(-5), Value::Int(1), Value::Int(16)]),
            Value::Array(vec![Value::Int(5), Value::Int(1), Value::Nil]),
        ];
        for other in invalid {
            assert!(Acquisition::read(&other).is_err(), "{other:?}");
        }
    }
}
