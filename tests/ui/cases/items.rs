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
const fn c051_constant(id: u64) -> u64 {
    id
}

#[redis_lock(key = "s:<id>", ttl = "5s")]
fn c051_blocking(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "s:<id>", ttl = "5s")]
pub unsafe extern "C" fn c051_extern(id: u64) -> u64 {
    id
}

#[redis_lock(key = "s:<id>", ttl = "5s")]
fn c051_future(id: u64) -> impl std::future::Future<Output = Result<u64, AppError>> {
    async move { Ok(id) }
}

#[redis_lock(key = "s:<idd>", ttl = "5")]
fn c051_with_other_mistakes(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[tokio::main]
#[redis_lock(key = "t:1", ttl = "5s")]
async fn c039_below() -> Result<(), AppError> {
    Ok(())
}

trait Plan {
    #[redis_lock(key = "plan:<id>", ttl = "5s")]
    async fn c042_plan(&self, id: u64) -> Result<u64, AppError>;
}

#[redis_lock(key = "x", ttl = "5s")]
impl Shop {
    pub fn c054_get(&self) -> u64 {
        self.base
    }
}

#[redis_lock(key = "x", ttl = "5s")]
mod c054_module {
    pub const BASE: u64 = 1;
}

#[redis_lock]
struct C054Struct {
    id: u64,
}

#[redis_lock(key = "x", ttl = "5s")]
pub trait C054Trait {
    async fn get(&self) -> u64;
}

#[redis_lock(key = "x", ttl = "5s")]
use std::fmt as c054_fmt;

fn c054_uses(item: C054Struct, shop: &Shop) -> u64 {
    let _: Option<c054_fmt::Error> = None;
    item.id + shop.c054_get() + c054_module::BASE + c051_constant(1)
}

fn main() {}
