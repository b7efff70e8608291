//! Arguments that are missing, unknown, repeated or of the wrong kind.

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
async fn misspells_an_argument(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "30s", retries = 3)]
async fn adds_an_unknown_argument(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock]
async fn omits_the_list_of_arguments(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock()]
async fn omits_all_arguments(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(ttl = "5s")]
async fn omits_the_key(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = 5, ttl = "5s")]
async fn writes_a_number_as_key(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = b"order", ttl = "5s")]
async fn writes_bytes_as_key() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "order:<id>")]
async fn omits_the_ttl(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", wait = "1s", ttl = "6s")]
async fn repeats_an_argument(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock("order:<id>", ttl = "5s")]
async fn omits_the_name_of_an_argument(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id>", ttl("5s"))]
async fn omits_the_equals_sign(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id>", ttl = )]
async fn omits_the_value(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id>" ttl = "5s")]
async fn omits_a_comma(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = 30)]
async fn writes_a_number_as_ttl(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", wait = true)]
async fn writes_a_bool_as_wait(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", renew = "false")]
async fn writes_a_string_as_renew(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", renew = id > 5)]
async fn writes_an_expression_as_renew(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", lease = "held")]
async fn writes_a_string_as_lease(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", lease = self.lease)]
async fn writes_a_field_as_lease(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", lease = self)]
async fn writes_self_as_lease(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "a:<id>", ttl = "5s", crate = "lock_runtime")]
async fn writes_a_string_as_crate(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(kye = "a:<idd>", ttl = "5", retries = 3, wait = "1 s", renew = 1, lease = held)]
async fn makes_many_mistakes_at_once(id: u64) -> Result<u64, AppError> {
    Ok(id + u64::from(held.is_lost()))
}

#[redis_lock(key = "a:<id>", ttl = "5", lease = held)]
async fn names_the_lease_beside_a_mistake(id: u64) -> Result<impl Iterator<Item = u64>, AppError> {
    let mut ids = vec![id];
    ids.push(u64::from(held.is_lost()));
    Ok(ids.into_iter())
}

fn main() {}
