//! What rustc says when a type does not fit.

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
async fn c005_plain(id: u64) -> u64 {
    id
}

#[redis_lock(key = "unit:<id>", ttl = "5s")]
async fn c005_no_return_type(id: u64) {
    drop(id);
}

#[redis_lock(key = "opt:<id>", ttl = "5s")]
async fn c005_option(id: u64) -> Option<Vec<u64>> {
    Some(vec![id])
}

#[redis_lock(key = "opaque:<id>", ttl = "5s")]
async fn c005_opaque(id: u64) -> impl Iterator<Item = u64> {
    0..id
}

#[redis_lock(key = "never:<id>", ttl = "5s")]
async fn c005_never(id: u64) -> ! {
    panic!("{id}")
}

#[redis_lock(key = "bad:<id>", ttl = "5s")]
async fn c050_wrong_tail(id: u64) -> Result<String, AppError> {
    let _ = id;
    Ok(5)
}

#[redis_lock(key = "bad:<id>", ttl = "5s")]
async fn c050_wrong_return(id: u64) -> Result<u64, AppError> {
    if id == 0 {
        return Ok("zero");
    }
    Ok(id)
}

#[redis_lock(key = "bad:<id>", ttl = "5s")]
async fn c050_missing_tail(id: u64) -> Result<u64, AppError> {
    drop(id);
}

#[derive(Debug)]
struct Bare;

#[redis_lock(key = "nf:<id>", ttl = "5s")]
async fn c052_no_from(id: u64) -> Result<u64, Bare> {
    Ok(id)
}

#[redis_lock(key = "nf:<id>", ttl = "5s")]
async fn c052_no_from_opaque(id: u64) -> Result<impl Iterator<Item = u64>, Bare> {
    Ok(0..id)
}

#[redis_lock(key = "opt:<name>", ttl = "5s")]
async fn c053_option(name: Option<&str>) -> Result<usize, AppError> {
    Ok(name.map_or(0, str::len))
}

#[redis_lock(key = "vec:<bytes>", ttl = "5s")]
async fn c053_bytes(bytes: Vec<u8>) -> Result<usize, AppError> {
    Ok(bytes.len())
}

struct Order {
    id: u64,
}

#[redis_lock(key = "order:<order>", ttl = "5s")]
async fn c053_struct(order: Order) -> Result<u64, AppError> {
    Ok(order.id)
}

#[redis_lock(key = "order:<order:?>", ttl = "5s")]
async fn c053_format(order: Order) -> Result<u64, AppError> {
    Ok(order.id)
}

#[redis_lock(key = "order:<name:04>", ttl = "5s")]
async fn c053_zeros_in_front_of_a_text(name: String) -> Result<usize, AppError> {
    Ok(name.len())
}

#[redis_lock(key = "order:<order.idd>", ttl = "5s")]
async fn c029_no_such_field(order: Order) -> Result<u64, AppError> {
    Ok(order.id)
}

#[redis_lock(key = 5 + 5, ttl = "5s")]
async fn key_expression_of_another_type() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = 5 + 5)]
async fn ttl_expression_of_another_type() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", wait = std::time::Instant::now())]
async fn wait_expression_of_another_type() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a", ttl = "5s", manager = "redis://localhost")]
async fn manager_of_another_type() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "a:<id>", ttl = "5s", or_else = |error| error)]
async fn or_else_of_another_type(id: u64) -> u64 {
    id
}

fn to_text(error: LockError) -> String {
    error.to_string()
}

#[redis_lock(key = "a:<id>", ttl = "5s", or_else = to_text)]
async fn or_else_function_of_another_type(id: u64) -> u64 {
    id
}

#[redis_lock(key = "a:<id>", ttl = "5s", or_else = 0)]
async fn or_else_that_is_no_function(id: u64) -> u64 {
    id
}

#[redis_lock(key = "a:<id>", ttl = "5s", or_else = || id)]
async fn or_else_without_the_error(id: u64) -> u64 {
    id
}

#[redis_lock(key = "a", ttl = "5s", lease = held)]
async fn no_such_method_of_the_lease() -> Result<u64, AppError> {
    Ok(held.fence_number())
}

#[redis_lock(key = "a:<id>", ttl = "5s")]
const async fn left_to_rustc(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

fn main() {}
