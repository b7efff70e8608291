//! Replies to the scripts.

use std::time::{Duration, Instant};

use lock_runtime::internals::waiter::Waiter;
use lock_runtime::internals::{Acquisition, Jitter, NodeEpoch, read_acquisition, read_owned};
use lock_runtime::store::{Owned, StoreError};
use redis::Value;

/// Checks that a reply is read as the script means it, and that any other reply leaves open whether the
/// script ran.
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
    let acquisition = read_acquisition(reply);
    let parts = match reply {
        Value::Array(parts) => parts.as_slice(),
        _ => &[],
    };
    match &acquisition {
        Ok(Acquisition::Granted(fence, None)) => {
            assert_eq!(*reply, Value::Int((*fence).into()), "granted");
        }
        Ok(Acquisition::Granted(fence, Some(epoch))) => {
            let [number, Value::BulkString(text)] = parts else { panic!("granted: {reply:?}") };
            assert_eq!(*number, Value::Int((*fence).into()));
            assert_eq!(node_epoch(text), Some(*epoch));
        }
        Ok(Acquisition::Queued(queued)) => {
            let &[Value::Int(poll_in), Value::Int(free_in), Value::Int(fence)] = parts else {
                panic!("queued: {reply:?}");
            };
            assert_eq!(queued.poll_in, ms(poll_in).expect("a poll interval"));
            assert_eq!(queued.free_in, ms(free_in));
            assert_eq!(i64::from(queued.last_fence), fence);
            let now = Instant::now();
            let jitter = Jitter::new(u64::MAX);
            let mut waiter = Waiter::new(Duration::from_secs(30), None, true, now, jitter);
            waiter.queued(now, *queued, now);
            assert!(waiter.poll_at() >= now);
        }
        Ok(Acquisition::Busy { holder, free_in }) => {
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
        Ok(Acquisition::NotALock { kind }) => {
            assert_eq!(parts, [Value::SimpleString(kind.clone())], "not a lock");
        }
        Err(error) => {
            unexpected(error);
            let is_valid = match (reply, parts) {
                (Value::Int(fence), _) => *fence >= 0,
                (_, [Value::Int(pause), Value::Int(_), Value::Int(fence)]) => {
                    *pause >= 0 && *fence >= 0
                }
                (_, [Value::Int(fence), Value::BulkString(text)]) => {
                    *fence >= 0 && node_epoch(text).is_some()
                }
                (_, [Value::Nil | Value::BulkString(_), Value::Int(_)]) => true,
                (_, parts) => matches!(parts, [Value::SimpleString(_)]),
            };
            assert!(!is_valid, "{reply:?} is a valid reply");
        }
    }
}

fn renew_or_release(reply: &Value) {
    match (read_owned(reply), reply) {
        (Ok(Owned::Yes), Value::Int(1)) | (Ok(Owned::No), Value::Int(0)) => {}
        (Ok(owned), _) => panic!("{owned:?} for {reply:?}"),
        (Err(error), _) => {
            unexpected(&error);
            assert!(!matches!(reply, Value::Int(0 | 1)));
        }
    }
}

/// Checks that the script may have run.
fn unexpected(error: &StoreError) {
    assert!(error.may_have_run(), "{error}");
    assert!(error.to_string().starts_with("unexpected reply from the server: "), "{error}");
}

/// An epoch and a time: two numbers.
fn node_epoch(text: &[u8]) -> Option<NodeEpoch> {
    let numbers: Option<Vec<u64>> = text
        .split(|byte| *byte == b' ')
        .map(|word| str::from_utf8(word).ok()?.parse().ok())
        .collect();
    let [epoch, at] = numbers?[..] else { return None };
    Some(NodeEpoch { epoch, at })
}

/// Milliseconds; `None` where they are negative.
fn ms(millis: i64) -> Option<Duration> {
    (millis >= 0).then(|| Duration::from_millis(millis.unsigned_abs()))
}
