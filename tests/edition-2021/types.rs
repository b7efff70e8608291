//! Opaque return types, the never type, and what futures capture.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::io;

use lock_runtime::{redis_lock, LockError};

use crate::support::{holding, locking, tick};

#[redis_lock(key = "scan:<id>", ttl = "5s")]
async fn scan(id: u64, text: &str) -> Result<impl Iterator<Item = u64>, LockError> {
    let length = text.len() as u64;
    Ok((0..id).filter(move |n| n % length == 0))
}

#[tokio::test]
async fn returns_an_opaque_value_that_outlives_the_lock() {
    let numbers = locking("scan:7", scan(7, "ab")).await.unwrap();
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 2, 4, 6]);
}

#[redis_lock(key = "else:<id>", ttl = "5s", or_else = |_| Ok("locked".to_owned()))]
async fn opaque(id: u64) -> impl Debug {
    if id == 0 {
        Err::<String, _>("zero")
    } else {
        Ok(id.to_string())
    }
}

#[tokio::test]
async fn infers_an_opaque_type_with_or_else() {
    assert_eq!(format!("{:?}", locking("else:2", opaque(2)).await), "Ok(\"2\")");
}

/// `!` falls back to `()` before edition 2024.
#[redis_lock(key = "loop:<id>", ttl = "5s")]
async fn forever(id: u64) -> io::Result<Infallible> {
    loop {
        tick().await;
        if id == 0 {
            return Err(io::ErrorKind::Other.into());
        }
    }
}

#[tokio::test]
async fn accepts_a_body_without_an_end() {
    holding("loop:0", forever(0)).await.unwrap_err();
}

trait Store<T> {
    fn get(&self, id: u64) -> impl Future<Output = Option<T>> + Send;
}

impl Store<u8> for u8 {
    async fn get(&self, id: u64) -> Option<u8> {
        tick().await;
        (id > 0).then_some(*self)
    }
}

#[redis_lock(key = "load:<id>", ttl = "5s")]
async fn load<S, T>(id: u64, store: &S) -> Result<Option<T>, LockError>
where
    S: Store<T> + Sync,
    T: Send,
{
    Ok(store.get(id).await)
}

#[tokio::test]
async fn calls_a_trait_with_an_opaque_future() {
    assert_eq!(holding("load:1", load(1, &7_u8)).await.unwrap(), Some(7));
}

#[redis_lock(key = "dbl:<id>", ttl = "5s")]
async fn double(id: u32) -> Result<u32, LockError> {
    tick().await;
    Ok(std::cell::RefCell::new(id).borrow().wrapping_mul(2))
}

/// The temporary of the last expression is no part of a future that awaits before it.
#[tokio::test]
async fn spawns_a_future_with_a_temporary_at_its_end() {
    let call = async { tokio::spawn(double(3)).await.unwrap() };
    assert_eq!(locking("dbl:3", call).await.unwrap(), 6);
}
