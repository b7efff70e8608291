//! Items that cannot be locked.

use lock_runtime::{LockError, redis_lock};

pub enum AppError {
    Lock(LockError),
}
impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

pub struct Shop {
    base: u64,
}

#[redis_lock(key = "c:<id>", ttl = "5s")]
const fn locks_a_const_fn(id: u64) -> u64 {
    id
}

#[redis_lock(key = "s:<id>", ttl = "5s")]
fn locks_a_blocking_fn(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "s:<id>", ttl = "5s")]
pub unsafe extern "C" fn locks_an_extern_fn(id: u64) -> u64 {
    id
}

#[redis_lock(key = "s:<id>", ttl = "5s")]
fn returns_a_bare_future(id: u64) -> impl std::future::Future<Output = Result<u64, AppError>> {
    async move { Ok(id) }
}

#[redis_lock(key = "s:<idd>", ttl = "5")]
fn locks_a_blocking_fn_with_other_mistakes(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[tokio::main]
#[redis_lock(key = "t:1", ttl = "5s")]
async fn locks_below_tokio_main() -> Result<(), AppError> {
    Ok(())
}

trait Plan {
    #[redis_lock(key = "plan:<id>", ttl = "5s")]
    async fn locks_a_method_without_a_body(&self, id: u64) -> Result<u64, AppError>;
}

#[redis_lock(key = "x", ttl = "5s")]
impl Shop {
    pub fn locks_an_impl(&self) -> u64 {
        self.base
    }
}

#[redis_lock(key = "x", ttl = "5s")]
mod locked_module {
    pub const BASE: u64 = 1;
}

#[redis_lock]
struct LockedStruct {
    id: u64,
}

#[redis_lock(key = "x", ttl = "5s")]
pub trait LockedTrait {
    async fn get(&self) -> u64;
}

#[redis_lock(key = "x", ttl = "5s")]
use std::fmt as locked_import;

fn uses_the_locked_items(item: LockedStruct, shop: &Shop) -> u64 {
    let _: Option<locked_import::Error> = None;
    item.id + shop.locks_an_impl() + locked_module::BASE + locks_a_const_fn(1)
}

fn main() {}
