//! Key templates.

use lock_runtime::{LockError, redis_lock};

pub enum AppError {
    Lock(LockError),
}
impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

struct Shop {
    base: u64,
}

#[redis_lock(key = "order:<oid>", ttl = "5s")]
async fn c029_unknown(id: u64, user: u64) -> Result<u64, AppError> {
    let oid = id + user;
    Ok(oid)
}

#[redis_lock(key = "order:<oid>", ttl = "5s")]
async fn c029_no_parameters() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "kind:<typ>", ttl = "5s")]
async fn c027_no_raw_prefix(r#type: &str) -> Result<usize, AppError> {
    Ok(r#type.len())
}

#[redis_lock(key = "é<", ttl = "5s")]
async fn c028_not_closed() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "日本:<名>", ttl = "5s")]
async fn c028_unknown(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "", ttl = "5s")]
async fn empty() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "order:<>", ttl = "5s")]
async fn empty_placeholder(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id", ttl = "5s")]
async fn not_closed(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id:<n>", ttl = "5s")]
async fn closed_too_late(id: u64, n: u64) -> Result<u64, AppError> {
    Ok(id + n)
}

#[redis_lock(key = "order:id>", ttl = "5s")]
async fn not_opened(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:< id >", ttl = "5s")]
async fn space(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:{id}", ttl = "5s")]
async fn braces(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "{tenant}:<id>", ttl = "5s")]
async fn braces_beside_a_placeholder(tenant: &str, id: u64) -> Result<usize, AppError> {
    Ok(tenant.len() + id as usize)
}

#[redis_lock(key = "shop:<self.base>", ttl = "5s")]
async fn self_in_a_function(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

impl Shop {
    #[redis_lock(key = "shop:<base>", ttl = "5s")]
    async fn field_without_self(&self, id: u64) -> Result<u64, AppError> {
        Ok(self.base + id)
    }
}

#[redis_lock(key = "order:<shop.base()>", ttl = "5s")]
async fn method_call(shop: &Shop) -> Result<u64, AppError> {
    Ok(shop.base)
}

#[redis_lock(key = "order:<shop.>", ttl = "5s")]
async fn no_field(shop: &Shop) -> Result<u64, AppError> {
    Ok(shop.base)
}

#[redis_lock(key = "order:<Shop::MAX>", ttl = "5s")]
async fn constant(shop: &Shop) -> Result<u64, AppError> {
    Ok(shop.base)
}

#[redis_lock(key = "order:<n:>", ttl = "5s")]
async fn empty_format(n: u64) -> Result<u64, AppError> {
    Ok(n)
}

#[redis_lock(key = "order:<n:04d>", ttl = "5s")]
async fn format_of_another_language(n: u64) -> Result<u64, AppError> {
    Ok(n)
}

#[redis_lock(key = "order:<n:^8>", ttl = "5s")]
async fn alignment(n: u64) -> Result<u64, AppError> {
    Ok(n)
}

#[redis_lock(key = "<a><b>", ttl = "5s")]
async fn run_together(a: &str, b: &str) -> Result<usize, AppError> {
    Ok(a.len() + b.len())
}

#[redis_lock(key = "order-<a>-<shop.base>", ttl = "5s")]
async fn separator_in_a_value(a: &str, shop: &Shop) -> Result<usize, AppError> {
    Ok(a.len() + shop.base as usize)
}

#[redis_lock(key = "<a>%<b>", ttl = "5s")]
async fn separator_in_an_escape(a: &str, b: &str) -> Result<usize, AppError> {
    Ok(a.len() + b.len())
}

#[redis_lock(key = "\"<a>\":<x>:<y>", ttl = "5s")]
async fn two_mistakes_and_escapes(a: &str) -> Result<usize, AppError> {
    Ok(a.len())
}

macro_rules! locked {
    ($key:literal, $param:ident) => {
        #[redis_lock(key = $key, ttl = "5s")]
        async fn from_macro($param: u64) -> Result<u64, AppError> {
            Ok($param)
        }
    };
}
locked!("order:<idd>", id);

fn main() {}
