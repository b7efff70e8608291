//! Keywords and the prelude.

use lock_runtime::{redis_lock, LockError};

use crate::support::{holding, locking, tick};

#[redis_lock(key = "gen:<gen>", ttl = "5s")]
async fn generation(gen: u64) -> Result<u64, LockError> {
    tick().await;
    Ok(gen)
}

/// A keyword since edition 2024.
#[tokio::test]
async fn finds_a_parameter_named_gen() {
    assert_eq!(holding("gen:7", generation(7)).await.unwrap(), 7);
}

#[redis_lock(key = "kind:<type>", ttl = "5s")]
async fn kind(r#type: &str) -> Result<usize, LockError> {
    Ok(r#type.len())
}

#[tokio::test]
async fn finds_a_raw_parameter_without_its_prefix() {
    assert_eq!(locking("kind:a", kind("a")).await.unwrap(), 1);
}

/// `Future` and `IntoFuture` are in the prelude since edition 2024.
mod shadow {
    #![allow(dead_code, unreachable_pub)]
    pub type Result<T> = std::result::Result<T, super::LockError>;
    enum Option {
        Many,
    }
    struct String;
    struct Box;
    struct Duration;
    trait From {}
    trait Future {}
    trait IntoFuture {}
    fn drop(_: u64) {}
    mod tokio {}
    mod redis {}
    mod core {}
    #[super::redis_lock(key = "m:<id>", ttl = "5s")]
    pub async fn m(id: u64) -> Result<u64> {
        ::core::result::Result::Ok(id)
    }
}

#[tokio::test]
async fn ignores_local_items_with_names_of_the_prelude() {
    assert_eq!(locking("m:1", shadow::m(1)).await.unwrap(), 1);
}
