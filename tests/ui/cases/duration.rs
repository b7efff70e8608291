//! Invalid durations, and durations that contradict each other.

use lock_runtime::{LockError, redis_lock};

pub enum AppError {
    Lock(LockError),
}
impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

#[redis_lock(key = "a", ttl = "30")]
async fn omits_the_unit() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5 m s")]
async fn adds_spaces() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1M")]
async fn writes_the_unit_in_upper_case() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "-5s")]
async fn adds_a_sign() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "s")]
async fn omits_the_number() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "")]
async fn omits_everything() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1.5s")]
async fn writes_a_fraction() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1day")]
async fn writes_an_unknown_unit() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "30s1m")]
async fn writes_units_in_the_wrong_order() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1s1s")]
async fn repeats_a_unit() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "0s")]
async fn sets_zero_seconds() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "0ms")]
async fn sets_zero_milliseconds() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "9223372036854775807s")]
async fn exceeds_a_day_by_far() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "99999999999999999999s")]
async fn exceeds_all_numbers() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "٣s")]
async fn writes_a_digit_of_another_script() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "249ms")]
async fn sets_a_ttl_too_short_to_renew() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "99ms", renew = false)]
async fn sets_a_ttl_too_short_without_renewal() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "24h1ms")]
async fn sets_a_ttl_longer_than_a_day() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "25h", renew = false)]
async fn sets_a_ttl_longer_than_a_day_without_renewal() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "forever")]
async fn sets_an_endless_ttl() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", wait = "25h")]
async fn waits_longer_than_a_day() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", wait = "2")]
async fn waits_without_a_unit() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", max_hold = "0s")]
async fn sets_max_hold_to_zero() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", min_hold = "forever")]
async fn sets_an_endless_min_hold() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", max_hold = "48h")]
async fn sets_max_hold_longer_than_a_day() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", min_hold = "6s")]
async fn sets_min_hold_longer_than_ttl() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1m", max_hold = "1s500ms", min_hold = "2s")]
async fn sets_min_hold_longer_than_max_hold() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", renew = false, max_hold = "5s")]
async fn sets_max_hold_that_is_never_reached() -> Result<(), AppError> {
    Ok(())
}

fn main() {}
