//! What the scripts answer.

use std::time::Duration;

use redis::Value;

use super::waiter::Queued;
use crate::Fence;
use crate::store::{Owned, StoreError};

/// What `acquire.lua` answers.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Granted(Fence, Option<Told>),
    Queued(Queued),
    Busy { holder: Option<Box<str>>, free_in: Option<Duration> },
    NotALock { kind: String },
}

/// The epoch of a server of a cluster, and when it had that, by its own clock in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Told {
    pub(crate) epoch: u64,
    pub(crate) at: u64,
}

impl Answer {
    pub(crate) fn read(reply: &Value) -> Result<Self, StoreError> {
        let answer = match reply {
            Value::Int(number) => fence(*number).map(|fence| Self::Granted(fence, None)),
            Value::Array(parts) => Self::of_parts(parts),
            _ => None,
        };
        answer.ok_or_else(|| unexpected(reply))
    }

    fn of_parts(parts: &[Value]) -> Option<Self> {
        match parts {
            [Value::Int(number), Value::BulkString(epoch)] => {
                let granted = |(fence, told)| Self::Granted(fence, Some(told));
                fence(*number).zip(told(epoch)).map(granted)
            }
            [Value::Int(pause), Value::Int(free_in), Value::Int(number)] => {
                fence(*number).zip(duration(*pause)).map(|(last_fence, pause)| {
                    Self::Queued(Queued { pause, free_in: duration(*free_in), last_fence })
                })
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

/// What `renew.lua` and `release.lua` answer.
pub(crate) fn owned(reply: &Value) -> Result<Owned, StoreError> {
    match reply {
        Value::Int(1) => Ok(Owned::Yes),
        Value::Int(0) => Ok(Owned::No),
        other => Err(unexpected(other)),
    }
}

pub(crate) fn unexpected(reply: &Value) -> StoreError {
    StoreError::Unknown(format!("the server answered {reply:?}, as no Redis does").into())
}

fn fence(number: i64) -> Option<Fence> {
    number.try_into().ok().map(Fence::new)
}

fn told(text: &[u8]) -> Option<Told> {
    let (epoch, at) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some(Told { epoch: epoch.parse().ok()?, at: at.parse().ok()? })
}

/// Milliseconds, or -1 for never.
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
    fn answers_are_read_and_others_are_errors() {
        let read = |parts: &[Value]| Answer::read(&Value::Array(parts.to_vec())).ok();
        let ms = Duration::from_millis;
        let fence = Fence::new(17);
        assert_eq!(Answer::read(&Value::Int(17)).ok(), Some(Answer::Granted(fence, None)));
        assert_eq!(
            read(&[Value::Int(17), text("3 42")]),
            Some(Answer::Granted(fence, Some(Told { epoch: 3, at: 42 })))
        );
        let last_fence = Fence::new(16);
        assert_eq!(
            read(&[Value::Int(100), Value::Int(-1), Value::Int(16)]),
            Some(Answer::Queued(Queued { pause: ms(100), free_in: None, last_fence }))
        );
        assert_eq!(
            read(&[text("other"), Value::Int(5)]),
            Some(Answer::Busy { holder: Some("other".into()), free_in: Some(ms(5)) })
        );
        assert_eq!(
            read(&[Value::Nil, Value::Int(5)]),
            Some(Answer::Busy { holder: None, free_in: Some(ms(5)) })
        );
        assert_eq!(
            read(&[Value::SimpleString("hash".into())]),
            Some(Answer::NotALock { kind: "hash".into() })
        );
        let others = [
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
        for other in others {
            assert!(Answer::read(&other).is_err(), "{other:?}");
        }
    }
}
