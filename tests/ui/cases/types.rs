//! Types that do not fit, as reported by rustc.

use lock_runtime::{LockError, redis_lock};

#[derive(Debug)]
pub enum AppError {
    Lock(LockError),
}
impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

#[redis_lock(key = "plain:<id>", ttl = "5s")]
async fn returns_a_number(id: u64) -> u64 {
    id
}

#[redis_lock(key = "unit:<id>", ttl = "5s")]
async fn returns_nothing(id: u64) {
    drop(id);
}

#[redis_lock(key = "opt:<id>", ttl = "5s")]
async fn returns_an_option(id: u64) -> Option<Vec<u64>> {
    Some(vec![id])
}

#[redis_lock(key = "opaque:<id>", ttl = "5s")]
async fn returns_an_opaque_type(id: u64) -> impl Iterator<Item = u64> {
    0..id
}

#[redis_lock(key = "never:<id>", ttl = "5s")]
async fn returns_never(id: u64) -> ! {
    panic!("{id}")
}

#[redis_lock(key = "bad:<id>", ttl = "5s")]
async fn ends_with_another_type(id: u64) -> Result<String, AppError> {
    let _ = id;
    Ok(5)
}

#[redis_lock(key = "bad:<id>", ttl = "5s")]
async fn returns_early_with_another_type(id: u64) -> Result<u64, AppError> {
    if id == 0 {
        return Ok("zero");
    }
    Ok(id)
}

#[redis_lock(key = "bad:<id>", ttl = "5s")]
async fn omits_the_tail(id: u64) -> Result<u64, AppError> {
    drop(id);
}

#[derive(Debug)]
struct Bare;

#[redis_lock(key = "nf:<id>", ttl = "5s")]
async fn returns_an_error_without_conversion(id: u64) -> Result<u64, Bare> {
    Ok(id)
}

#[redis_lock(key = "nf:<id>", ttl = "5s")]
async fn returns_opaque_without_conversion(id: u64) -> Result<impl Iterator<Item = u64>, Bare> {
    Ok(0..id)
}

#[redis_lock(key = "opt:<name>", ttl = "5s")]
async fn puts_an_option_into_the_key(name: Option<&str>) -> Result<usize, AppError> {
    Ok(name.map_or(0, str::len))
}

#[redis_lock(key = "vec:<bytes>", ttl = "5s")]
async fn puts_bytes_into_the_key(bytes: Vec<u8>) -> Result<usize, AppError> {
    Ok(bytes.len())
}

struct Order {
    id: u64,
}

#[redis_lock(key = "order:<order>", ttl = "5s")]
async fn puts_a_struct_into_the_key(order: Order) -> Result<u64, AppError> {
    Ok(order.id)
}

#[redis_lock(key = "order:<order:?>", ttl = "5s")]
async fn formats_a_struct_without_debug(order: Order) -> Result<u64, AppError> {
    Ok(order.id)
}

#[redis_lock(key = "order:<name:04>", ttl = "5s")]
async fn formats_a_text_with_leading_zeros(name: String) -> Result<usize, AppError> {
    Ok(name.len())
}

#[redis_lock(key = "order:<order.idd>", ttl = "5s")]
async fn names_an_unknown_field(order: Order) -> Result<u64, AppError> {
    Ok(order.id)
}

#[redis_lock(key = 5 + 5, ttl = "5s")]
async fn computes_a_key_of_another_type() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = 5 + 5)]
async fn computes_a_ttl_of_another_type() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", wait = std::time::Instant::now())]
async fn computes_a_wait_of_another_type() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", manager = "redis://localhost")]
async fn uses_a_manager_of_another_type() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a:<id>", ttl = "5s", or_else = |error| error)]
async fn converts_into_another_type(id: u64) -> u64 {
    id
}

fn to_text(error: LockError) -> String {
    error.to_string()
}

#[redis_lock(key = "a:<id>", ttl = "5s", or_else = to_text)]
async fn converts_by_a_function_of_another_type(id: u64) -> u64 {
    id
}

#[redis_lock(key = "a:<id>", ttl = "5s", or_else = 0)]
async fn converts_by_a_number(id: u64) -> u64 {
    id
}

#[redis_lock(key = "a:<id>", ttl = "5s", or_else = || id)]
async fn converts_without_the_error(id: u64) -> u64 {
    id
}

#[redis_lock(key = "a", ttl = "5s", lease = held)]
async fn calls_an_unknown_method_of_the_lease() -> Result<u64, AppError> {
    Ok(held.fence_number())
}

#[redis_lock(key = "a:<id>", ttl = "5s")]
const async fn locks_a_const_async_fn(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

fn main() {}
