//! Functions made by `macro_rules`, whose fragments and names have an edition of their own.

use lock_runtime::{redis_lock, LockError};

use crate::support::{holding, locking, tick};

macro_rules! wrap {
    ($f:item) => {
        #[redis_lock(key = "wrap:<id>", ttl = "5s")]
        $f
    };
}
wrap! {
    async fn wrapped(id: u64) -> Result<u64, LockError> { Ok(id) }
}

#[tokio::test]
async fn finds_a_parameter_from_outside_of_the_macro() {
    assert_eq!(locking("wrap:5", wrapped(5)).await.unwrap(), 5);
}

struct Shop {
    base: u64,
}

macro_rules! imp {
    ($t:ty, $e:expr) => {
        impl $t {
            #[redis_lock(key = "imp:<self.base>:<id>", ttl = "5s")]
            async fn imp(&self, id: u64) -> Result<u64, LockError> {
                Ok(self.base + $e + id)
            }
        }
    };
}
imp!(Shop, 1 + 1);

#[tokio::test]
async fn finds_self_in_the_key_and_in_the_body() {
    assert_eq!(locking("imp:10:1", Shop { base: 10 }.imp(1)).await.unwrap(), 13);
}

/// Everything that a macro can pass on as one piece.
macro_rules! pieces {
    (
        $vis:vis $name:ident($($param:ident: $ty:ty),*) -> $out:ty,
        $key:literal, $ttl:expr, $wait:expr, $lease:ident, $crate_path:path, $body:block
    ) => {
        #[redis_lock(key = $key, ttl = $ttl, wait = $wait, lease = $lease, crate = $crate_path)]
        $vis async fn $name($($param: $ty),*) -> $out $body
    };
}
pieces!(
    pub(super) pieces(id: usize, text: &str) -> Result<usize, LockError>,
    "pieces:<id>", "1s", std::time::Duration::from_secs(1), held, ::lock_runtime,
    {
        tick().await;
        assert!(!held.is_lost());
        Ok(text.len() + id)
    }
);

#[tokio::test]
async fn accepts_every_argument_from_a_macro() {
    assert_eq!(holding("pieces:1", pieces(1, "text")).await.unwrap(), 5);
}
