//! Replies of Redis to the scripts.

use std::time::{Duration, Instant};

use redis::Value;

use crate::answer::{Answer, Told, owned};
use crate::store::{Owned, StoreError};
use crate::waiter::Waiter;

/// Checks that a reply is taken for what the scripts say that it is, and that everything else
/// leaves open whether they did anything.
///
/// # Panics
///
/// When a property is broken.
pub fn reply(bytes: &[u8]) {
    if let Ok(reply) = redis::parse_redis_value(bytes) {
        acquire(&reply);
        renew_or_release(&reply);
    }
}

fn acquire(reply: &Value) {
    let answer = Answer::read(reply);
    let parts = match reply {
        Value::Array(parts) => parts.as_slice(),
        _ => &[],
    };
    match &answer {
        Ok(Answer::Granted(fence, None)) => {
            assert_eq!(*reply, Value::Int((*fence).into()), "granted");
        }
        Ok(Answer::Granted(fence, Some(epoch))) => {
            let [number, Value::BulkString(text)] = parts else { panic!("granted: {reply:?}") };
            assert_eq!(*number, Value::Int((*fence).into()));
            assert_eq!(told(text), Some(*epoch));
        }
        Ok(Answer::Queued(queued)) => {
            let &[Value::Int(pause), Value::Int(free_in), Value::Int(fence)] = parts else {
                panic!("queued: {reply:?}");
            };
            assert_eq!(queued.pause, ms(pause).expect("a pause"));
            assert_eq!(queued.free_in, ms(free_in));
            assert_eq!(i64::from(queued.last_fence), fence);
            let now = Instant::now();
            let mut waiter = Waiter::new(Duration::from_secs(30), None, true, now, u8::MAX);
            waiter.queued(now, *queued, now);
            assert!(waiter.ask_at() >= now);
        }
        Ok(Answer::Busy { holder, free_in }) => {
            let [before, Value::Int(millis)] = parts else { panic!("busy: {reply:?}") };
            assert_eq!(*free_in, ms(*millis));
            match before {
                Value::Nil => assert_eq!(*holder, None),
                Value::BulkString(text) => {
                    assert_eq!(holder.as_deref(), Some(&*String::from_utf8_lossy(text)));
                }
                other => panic!("busy by {other:?}"),
            }
        }
        Ok(Answer::NotALock { kind }) => {
            assert_eq!(parts, [Value::SimpleString(kind.clone())], "not a lock");
        }
        Err(error) => {
            unexpected(error);
            let answers = match (reply, parts) {
                (Value::Int(fence), _) => *fence >= 0,
                (_, [Value::Int(pause), Value::Int(_), Value::Int(fence)]) => {
                    *pause >= 0 && *fence >= 0
                }
                (_, [Value::Int(fence), Value::BulkString(text)]) => {
                    *fence >= 0 && told(text).is_some()
                }
                (_, [Value::Nil | Value::BulkString(_), Value::Int(_)]) => true,
                (_, parts) => matches!(parts, [Value::SimpleString(_)]),
            };
            assert!(!answers, "{reply:?} is an answer");
        }
    }
}

fn renew_or_release(reply: &Value) {
    match (owned(reply), reply) {
        (Ok(Owned::Yes), Value::Int(1)) | (Ok(Owned::No), Value::Int(0)) => {}
        (Ok(owned), _) => panic!("{owned:?} for {reply:?}"),
        (Err(error), _) => {
            unexpected(&error);
            assert!(!matches!(reply, Value::Int(0 | 1)));
        }
    }
}

/// The script may have run.
fn unexpected(error: &StoreError) {
    assert!(error.may_have_run(), "{error}");
    assert!(error.to_string().starts_with("the server answered "), "{error}");
}

/// An epoch and a time: two numbers.
fn told(text: &[u8]) -> Option<Told> {
    let numbers: Option<Vec<u64>> = text
        .split(|byte| *byte == b' ')
        .map(|word| str::from_utf8(word).ok()?.parse().ok())
        .collect();
    let [epoch, at] = numbers?[..] else { return None };
    Some(Told { epoch, at })
}

/// Milliseconds; none where they are negative.
fn ms(millis: i64) -> Option<Duration> {
    (millis >= 0).then(|| Duration::from_millis(millis.unsigned_abs()))
}
