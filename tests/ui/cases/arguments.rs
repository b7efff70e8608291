//! Arguments that are missing, unknown, repeated or of another kind.

use lock_runtime::{LockError, redis_lock};

pub enum AppError {
    Lock(LockError),
}
impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

#[redis_lock(key = "a:<id>", tll = "30s")]
async fn c032_misspelt(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "30s", retries = 3)]
async fn c032_unlike_any_other(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock]
async fn c033_nothing(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock()]
async fn c033_empty(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(ttl = "5s")]
async fn c033_no_key(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = 5, ttl = "5s")]
async fn c033_number_key(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = b"order", ttl = "5s")]
async fn c033_bytes_key() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "order:<id>")]
async fn no_ttl(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", wait = "1s", ttl = "6s")]
async fn twice(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock("order:<id>", ttl = "5s")]
async fn no_name(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id>", ttl("5s"))]
async fn no_value(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id>", ttl = )]
async fn empty_value(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id>" ttl = "5s")]
async fn no_comma(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = 30)]
async fn ttl_is_a_number(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", wait = true)]
async fn wait_is_a_bool(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", renew = "false")]
async fn renew_is_a_string(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", renew = id > 5)]
async fn renew_is_an_expression(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", lease = "held")]
async fn lease_is_a_string(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", lease = self.lease)]
async fn lease_is_a_place(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", lease = self)]
async fn lease_is_self(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", crate = "lock_runtime")]
async fn crate_is_a_string(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(kye = "a:<idd>", ttl = "5", retries = 3, wait = "1 s", renew = 1, lease = held)]
async fn every_mistake_is_shown(id: u64) -> Result<u64, AppError> {
    Ok(id + u64::from(held.is_lost()))
}

#[redis_lock(key = "a:<id>", ttl = "5", lease = held)]
async fn the_body_still_finds_the_lease(id: u64) -> Result<impl Iterator<Item = u64>, AppError> {
    let mut ids = vec![id];
    ids.push(u64::from(held.is_lost()));
    Ok(ids.into_iter())
}

fn main() {}
