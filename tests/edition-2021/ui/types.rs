//! Types that do not fit, with `impl Trait` and temporaries that an edition treats differently.

use lock_runtime::{LockError, redis_lock};

#[redis_lock(key = "a:<id>", ttl = "5s")]
async fn last_expression_of_another_type(id: u64) -> Result<u64, LockError> {
    Ok(std::cell::RefCell::new(id).borrow().to_string())
}

#[redis_lock(key = "a:<id>", ttl = "5s", crate = ::locks)]
async fn unknown_runtime(id: u64) -> Result<impl Iterator<Item = u64>, LockError> {
    Ok(0..id)
}

fn main() {}
