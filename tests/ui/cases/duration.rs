//! Durations, and those that contradict each other.

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
async fn c034_no_unit() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5 m s")]
async fn c034_spaces() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1M")]
async fn c034_unit_in_upper_case() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "-5s")]
async fn c034_sign() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "s")]
async fn c034_no_number() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "")]
async fn c034_empty() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1.5s")]
async fn c034_fraction() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1day")]
async fn c034_unknown_unit() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "30s1m")]
async fn c034_units_in_the_wrong_order() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1s1s")]
async fn c034_unit_twice() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "0s")]
async fn c035_zero() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "0ms")]
async fn c035_zero_milliseconds() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "9223372036854775807s")]
async fn c036_too_large() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "99999999999999999999s")]
async fn c036_too_large_to_count() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "٣s")]
async fn c028_digit_of_another_script() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "249ms")]
async fn c037_too_short_to_renew() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "99ms", renew = false)]
async fn c037_too_short() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "24h1ms")]
async fn longer_than_a_day() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "forever")]
async fn forever() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", wait = "25h")]
async fn wait_longer_than_a_day() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", wait = "2")]
async fn wait_without_unit() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", max_hold = "0s")]
async fn max_hold_zero() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", min_hold = "forever")]
async fn min_hold_forever() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", max_hold = "48h")]
async fn max_hold_longer_than_a_day() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", min_hold = "6s")]
async fn min_hold_longer_than_ttl() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "1m", max_hold = "1s500ms", min_hold = "2s")]
async fn min_hold_longer_than_max_hold() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", renew = false, max_hold = "5s")]
async fn max_hold_never_reached() -> Result<(), AppError> {
    Ok(())
}

fn main() {}
