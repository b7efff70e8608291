//! Mistakes whose messages could depend on the edition.

use lock_runtime::{LockError, redis_lock};

#[redis_lock(key = "a:<gem>", ttl = "5s")]
async fn unknown_parameter_beside_a_later_keyword(gen: u64) -> Result<u64, LockError> {
    Ok(gen)
}

#[redis_lock(key = "a:<async>", ttl = "5s")]
async fn keyword_in_the_key(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
