//! Invalid key templates.

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
async fn names_an_unknown_parameter(id: u64, user: u64) -> Result<u64, AppError> {
    let oid = id + user;
    Ok(oid)
}

#[redis_lock(key = "order:<oid>", ttl = "5s")]
async fn names_a_parameter_of_a_function_without_any() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "kind:<typ>", ttl = "5s")]
async fn misspells_a_raw_parameter(r#type: &str) -> Result<usize, AppError> {
    Ok(r#type.len())
}

#[redis_lock(key = "é<", ttl = "5s")]
async fn opens_a_placeholder_after_an_accent() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "日本:<名>", ttl = "5s")]
async fn names_an_unknown_parameter_in_japanese(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "", ttl = "5s")]
async fn writes_an_empty_key() -> Result<(), AppError> {
    Ok(())
}

#[redis_lock(key = "order:<>", ttl = "5s")]
async fn writes_an_empty_placeholder(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id", ttl = "5s")]
async fn leaves_a_placeholder_open(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:<id:<n>", ttl = "5s")]
async fn leaves_the_first_placeholder_open(id: u64, n: u64) -> Result<u64, AppError> {
    Ok(id + n)
}

#[redis_lock(key = "order:id>", ttl = "5s")]
async fn closes_a_placeholder_never_opened(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:< id >", ttl = "5s")]
async fn adds_spaces_to_a_placeholder(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "order:{id}", ttl = "5s")]
async fn writes_a_parameter_in_braces(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[redis_lock(key = "{tenant}:<id>", ttl = "5s")]
async fn writes_braces_beside_a_placeholder(tenant: &str, id: u64) -> Result<usize, AppError> {
    Ok(tenant.len() + id as usize)
}

#[redis_lock(key = "shop:<self.base>", ttl = "5s")]
async fn names_self_in_a_function(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

impl Shop {
    #[redis_lock(key = "shop:<base>", ttl = "5s")]
    async fn names_a_field_without_self(&self, id: u64) -> Result<u64, AppError> {
        Ok(self.base + id)
    }
}

#[redis_lock(key = "order:<shop.base()>", ttl = "5s")]
async fn calls_a_method(shop: &Shop) -> Result<u64, AppError> {
    Ok(shop.base)
}

#[redis_lock(key = "order:<shop.>", ttl = "5s")]
async fn omits_the_field_after_a_dot(shop: &Shop) -> Result<u64, AppError> {
    Ok(shop.base)
}

#[redis_lock(key = "order:<Shop::MAX>", ttl = "5s")]
async fn names_a_constant(shop: &Shop) -> Result<u64, AppError> {
    Ok(shop.base)
}

#[redis_lock(key = "order:<n:>", ttl = "5s")]
async fn omits_the_format_after_a_colon(n: u64) -> Result<u64, AppError> {
    Ok(n)
}

#[redis_lock(key = "order:<n:04d>", ttl = "5s")]
async fn writes_a_format_of_another_language(n: u64) -> Result<u64, AppError> {
    Ok(n)
}

#[redis_lock(key = "order:<n:^8>", ttl = "5s")]
async fn aligns_a_value(n: u64) -> Result<u64, AppError> {
    Ok(n)
}

#[redis_lock(key = "<a><b>", ttl = "5s")]
async fn omits_a_separator(a: &str, b: &str) -> Result<usize, AppError> {
    Ok(a.len() + b.len())
}

#[redis_lock(key = "order-<a>-<shop.base>", ttl = "5s")]
async fn separates_by_a_character_of_values(a: &str, shop: &Shop) -> Result<usize, AppError> {
    Ok(a.len() + shop.base as usize)
}

#[redis_lock(key = "<a>%<b>", ttl = "5s")]
async fn separates_by_a_character_of_escapes(a: &str, b: &str) -> Result<usize, AppError> {
    Ok(a.len() + b.len())
}

#[redis_lock(key = "\"<a>\":<x>:<y>", ttl = "5s")]
async fn makes_two_mistakes_beside_escapes(a: &str) -> Result<usize, AppError> {
    Ok(a.len())
}

macro_rules! locked {
    ($key:literal, $param:ident) => {
        #[redis_lock(key = $key, ttl = "5s")]
        async fn takes_the_key_from_a_macro($param: u64) -> Result<u64, AppError> {
            Ok($param)
        }
    };
}
locked!("order:<idd>", id);

fn main() {}
