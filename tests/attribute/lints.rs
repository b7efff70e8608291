//! Lints, which treat the function as if it had no attribute.
//!
//! The whole binary denies warnings; these lints need a function of their own.

use lock_runtime::redis_lock;

use super::support::{AppError, locking, work};

#[expect(dead_code)]
#[redis_lock(key = "dead:<id>", ttl = "5s")]
async fn never_called(id: u64) -> Result<u64, AppError> {
    Ok(id)
}
#[redis_lock(key = "dead:<id>", ttl = "5s")]
#[expect(dead_code)]
async fn never_called_below(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "sh:<shard>:<id>", ttl = "5s")]
async fn sharded(id: u64, shard: u8) -> Result<u64, AppError> {
    Ok(id)
}
#[redis_lock(key = "key:<id>", ttl = "5s")]
async fn in_the_key_only(id: u64) -> Result<(), AppError> {
    Ok(())
}
#[expect(unused_variables)]
#[redis_lock(key = "unused:<id>", ttl = "5s")]
async fn unused(id: u64, shard: u8) -> Result<u64, AppError> {
    Ok(id)
}

#[tokio::test]
async fn counts_parameters_in_the_key_as_used() {
    assert_eq!(locking("sh:2:1", sharded(1, 2)).await.unwrap(), 1);
    locking("key:1", in_the_key_only(1)).await.unwrap();
    assert_eq!(locking("unused:1", unused(1, 2)).await.unwrap(), 1);
}

macro_rules! many {
    ($(#[$above:meta])* $name:ident $(#[$below:meta])*) => {
        $(#[$above])*
        #[redis_lock(key = "many:<id>", ttl = "5s")]
        $(#[$below])*
        #[allow(clippy::many_single_char_names)]
        async fn $name(
            id: u64, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8,
        ) -> Result<u64, AppError> {
            Ok(id + u64::from(a ^ b ^ c ^ d ^ e ^ f ^ g))
        }
    };
}
many!(
    #[allow(clippy::too_many_arguments)]
    many_above
);
many!(many_below #[allow(clippy::too_many_arguments)]);
many!(
    #[expect(clippy::too_many_arguments)]
    many_expected_above
);
many!(many_expected_below #[expect(clippy::too_many_arguments)]);

#[tokio::test]
async fn respects_an_allow_above_or_below() {
    assert_eq!(locking("many:1", many_above(1, 0, 0, 0, 0, 0, 0, 9)).await.unwrap(), 10);
    assert_eq!(locking("many:2", many_below(2, 0, 0, 0, 0, 0, 0, 9)).await.unwrap(), 11);
    assert_eq!(locking("many:3", many_expected_above(3, 0, 0, 0, 0, 0, 0, 0)).await.unwrap(), 3);
    assert_eq!(locking("many:4", many_expected_below(4, 0, 0, 0, 0, 0, 0, 0)).await.unwrap(), 4);
}

#[redis_lock(key = "loop:<id>", ttl = "5s")]
async fn forever(id: u64) -> Result<std::convert::Infallible, AppError> {
    loop {
        work(id).await?;
        if id == 0 {
            return Err(AppError::Empty);
        }
    }
}
#[expect(dead_code)]
#[redis_lock(key = "loop:<id>", ttl = "5s")]
async fn endless(id: u64) -> Result<std::convert::Infallible, AppError> {
    loop {
        work(id).await?;
    }
}

#[tokio::test]
async fn accepts_a_body_without_an_end() {
    assert!(matches!(locking("loop:0", forever(0)).await, Err(AppError::Empty)));
}

#[redis_lock(key = "braces:<id>", ttl = "5s")]
async fn braces(id: u64) -> Result<u64, AppError> {
    #![deny(unused_braces, unused_parens, unused_mut, unreachable_code, unused_assignments)]
    work(id).await
}
/// Mistakes in the body are still reported.
#[redis_lock(key = "own:<id>", ttl = "5s")]
async fn own_mistakes(id: u64) -> Result<u64, AppError> {
    #![expect(unused_variables, unused_mut, clippy::let_and_return)]
    let unused = 1;
    let mut n = id;
    let result = Ok(n);
    result
}

#[tokio::test]
async fn keeps_lints_of_the_body() {
    assert_eq!(locking("braces:1", braces(1)).await.unwrap(), 1);
    assert_eq!(locking("own:1", own_mistakes(1)).await.unwrap(), 1);
}
