//! Names that rustc cannot resolve. They have a file of their own, because rustc resolves names before
//! it checks types.

use lock_runtime::{LockError, redis_lock};

#[redis_lock(
    key = "a:<id>:<n:04>", ttl = "5s", wait = "1s", max_hold = "1m", lease = held, crate = ::locks
)]
async fn names_an_unknown_runtime(id: u64, n: u64) -> Result<u64, LockError> {
    Ok(id + n + u64::from(held.is_lost()))
}

#[redis_lock(key = "a:<id>", ttl = TTL, manager = self.locks)]
async fn uses_unknown_names_in_expressions(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = format!("a:{idd}"), ttl = "5s", or_else = failed)]
async fn uses_unknown_names_in_calls(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s")]
async fn uses_a_lease_without_a_name(id: u64) -> Result<u64, LockError> {
    Ok(id + u64::from(held.is_lost()))
}

fn main() {}
