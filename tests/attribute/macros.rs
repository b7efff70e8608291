//! F: functions that other macros make.

use lock_runtime::redis_lock;

use super::support::{AppError, Shop, holding, locking, tick};

macro_rules! wrap {
    ($f:item) => {
        #[redis_lock(key = "wrap:<id>", ttl = "5s")]
        $f
    };
}
wrap! {
    async fn wrapped(id: u64) -> Result<u64, AppError> { Ok(id) }
}

#[tokio::test]
async fn c024_the_key_stands_in_a_macro_and_the_parameter_outside() {
    assert_eq!(locking("wrap:5", wrapped(5)).await.unwrap(), 5);
}

macro_rules! make {
    ($name:ident, $arg:ty, $out:ty) => {
        #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast)] // `as $out`
        #[redis_lock(key = "mk:<id>", ttl = "5s")]
        async fn $name(id: u64, arg: $arg) -> Result<$out, AppError> {
            let _ = arg;
            Ok(id as $out)
        }
    };
}
make!(made_str, &str, u32);
make!(made_u8, u8, u64);

#[tokio::test]
async fn c025_types_come_from_the_outside() {
    assert_eq!(locking("mk:1", made_str(1, "text")).await.unwrap(), 1_u32);
    assert_eq!(locking("mk:2", made_u8(2, 3)).await.unwrap(), 2_u64);
}

macro_rules! imp {
    ($t:ty, $e:expr) => {
        impl $t {
            #[redis_lock(key = "imp:<id>", ttl = "5s")]
            async fn imp(&self, id: u64) -> Result<u64, AppError> {
                Ok(self.base + $e + id)
            }
            #[redis_lock(key = "imp:<self.base>:<id>", ttl = "5s")]
            async fn imp_key(&self, id: u64) -> Result<u64, AppError> {
                Ok(self.base + $e + id)
            }
        }
    };
}
imp!(Shop, 1 + 1);

#[tokio::test]
async fn c026_self_is_the_receiver_in_the_body_and_in_the_key() {
    let shop = Shop { base: 10 };
    assert_eq!(locking("imp:1", shop.imp(1)).await.unwrap(), 13);
    assert_eq!(locking("imp:10:1", shop.imp_key(1)).await.unwrap(), 13);
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
    pub(super) pieces(id: usize, text: &str) -> Result<usize, AppError>,
    "pieces:<id>", "1s", std::time::Duration::from_secs(1), held, ::lock_runtime,
    {
        tick().await;
        assert!(!held.is_lost());
        Ok(text.len() + id)
    }
);

#[tokio::test]
async fn every_piece_can_come_from_the_outside() {
    assert_eq!(holding("pieces:1", pieces(1, "text")).await.unwrap(), 5);
}
