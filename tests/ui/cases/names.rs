//! Names that the compiler does not find. It looks for them before it looks at types.

use lock_runtime::{LockError, redis_lock};

#[redis_lock(
    key = "a:<id>:<n:04>", ttl = "5s", wait = "1s", max_hold = "1m", lease = held, crate = ::locks
)]
async fn unknown_runtime(id: u64, n: u64) -> Result<u64, LockError> {
    Ok(id + n + u64::from(held.is_lost()))
}

#[redis_lock(key = "a:<id>", ttl = TTL, manager = self.locks)]
async fn unknown_names_in_expressions(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = format!("a:{idd}"), ttl = "5s", or_else = failed)]
async fn unknown_names_in_calls(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s")]
async fn the_lease_has_no_name(id: u64) -> Result<u64, LockError> {
    Ok(id + u64::from(held.is_lost()))
}

fn main() {}
