//! Names that the expansion also uses.

use lock_runtime::redis_lock;

use super::support::{AppError, holding, locking, tick};

#[redis_lock(key = "h:<key>:<ttl>", ttl = "5s")]
async fn named(
    key: String,
    ttl: u64,
    token: u64,
    guard: u64,
    result: u64,
) -> Result<String, AppError> {
    Ok(format!("{key}{ttl}{token}{guard}{result}"))
}
#[redis_lock(key = "x:<request>:<body>:<never>", ttl = "5s", lease = lease)]
async fn expansion(request: u64, body: u64, never: u64, run: u64) -> Result<u64, AppError> {
    tick().await;
    assert!(!lease.is_lost());
    Ok(request + body + never + run)
}

#[tokio::test]
async fn accepts_any_parameter_name() {
    assert_eq!(locking("h:k:1", named("k".to_owned(), 1, 2, 3, 4)).await.unwrap(), "k1234");
    assert_eq!(holding("x:1:2:3", expansion(1, 2, 3, 4)).await.unwrap(), 10);
}

#[redis_lock(key = "loc:<id>", ttl = "5s")]
async fn locals(id: u64) -> Result<u64, AppError> {
    fn release() -> u64 {
        3
    }
    let guard = id;
    let lock = release();
    let conn = 1;
    Ok(guard + lock + conn)
}

#[tokio::test]
async fn separates_names_of_the_body_from_the_expansion() {
    assert_eq!(locking("loc:4", locals(4)).await.unwrap(), 8);
}

mod shadow {
    #![allow(dead_code, unreachable_pub)]
    pub type Result<T> = std::result::Result<T, super::AppError>;
    enum Option {
        Many,
    }
    struct String;
    struct Box;
    struct Duration;
    trait From {}
    trait Future {}
    fn drop(_: u64) {}
    mod tokio {}
    mod redis {}
    mod core {}
    #[super::redis_lock(key = "m:<id>", ttl = "5s")]
    pub async fn m(id: u64) -> Result<u64> {
        ::core::result::Result::Ok(id)
    }
}

mod shadow_further {
    #![allow(dead_code, unused_macros, clippy::items_after_statements)]
    mod std {}
    mod alloc {}
    mod lock_runtime {}
    trait Into {}
    trait Clone {}
    trait Drop {}
    struct Some;
    struct Ok;
    macro_rules! format_args {
        () => {};
    }
    macro_rules! stringify {
        () => {};
    }
    #[super::redis_lock(
        key = "all:<id>", ttl = "5s", wait = "1s", max_hold = "1m", lease = held,
        or_else = ::core::result::Result::Err
    )]
    pub(super) async fn all(
        id: u64,
    ) -> ::core::result::Result<::core::primitive::u64, ::lock_runtime::LockError> {
        ::core::assert!(!held.is_lost());
        ::core::result::Result::Ok(id)
    }
}

#[tokio::test]
async fn ignores_local_items_with_common_names() {
    assert_eq!(locking("m:1", shadow::m(1)).await.unwrap(), 1);
    assert_eq!(locking("all:1", shadow_further::all(1)).await.unwrap(), 1);
}
