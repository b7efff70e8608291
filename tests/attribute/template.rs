//! Key templates, and keys that are expressions.

use std::num::NonZeroU8;
use std::time::Duration;

use lock_runtime::{LockError, redis_lock};
use tokio::sync::Barrier;
use tokio::time::timeout;

use super::support::{AppError, locking, server, work};

#[redis_lock(key = "kind:<type>", ttl = "5s")]
async fn kind(r#type: &str) -> Result<usize, AppError> {
    Ok(r#type.len())
}

struct Order {
    r#type: u8,
    id: (u64, u64),
}
#[redis_lock(key = "order:<order.type>:<order.id.1>", ttl = "5s")]
async fn fields(order: &Order) -> Result<u64, AppError> {
    Ok(order.id.0)
}

#[tokio::test]
async fn finds_raw_names_without_their_prefix() {
    assert_eq!(locking("kind:a", kind("a")).await.unwrap(), 1);
    assert_eq!(locking("order:1:3", fields(&Order { r#type: 1, id: (2, 3) })).await.unwrap(), 2);

    let Err(AppError::Lock(error)) = kind("").await else { panic!("an empty value is an error") };
    assert!(error.to_string().contains("`<type>` is empty"), "{error}");
}

#[redis_lock(key = "café:<id>:日本", ttl = "5s")]
async fn cafe(id: u64) -> Result<u64, AppError> {
    Ok(id)
}
#[redis_lock(key = "größe:<größe>:<名>", ttl = "5s")]
async fn names(größe: u64, 名: &str) -> Result<usize, AppError> {
    work(größe).await?;
    Ok(名.len())
}

#[tokio::test]
async fn accepts_names_of_any_script() {
    assert_eq!(locking("café:1:日本", cafe(1)).await.unwrap(), 1);
    assert_eq!(locking("größe:1:é", names(1, "é")).await.unwrap(), 2);
}

#[redis_lock(key = "pair:<a>:<b>", ttl = "5s")]
async fn pair(a: &str, b: &str) -> Result<usize, AppError> {
    work(1).await?;
    Ok(a.len() + b.len())
}
#[redis_lock(key = "both:<a>:<b>", ttl = "5s")]
async fn both(a: &str, b: &str, inside: &Barrier) -> Result<(), LockError> {
    inside.wait().await;
    Ok(())
}

#[tokio::test]
async fn separates_different_values() {
    assert_eq!(locking("pair:eu%3A1:7", pair("eu:1", "7")).await.unwrap(), 5);
    assert_eq!(locking("pair:eu:1%3A7", pair("eu", "1:7")).await.unwrap(), 5);
    assert_eq!(locking("pair:%7Ba%7D:%25%0A", pair("{a}", "%\n")).await.unwrap(), 5);

    server().await;
    let inside = Barrier::new(2);
    let calls = async { tokio::try_join!(both("eu:1", "7", &inside), both("eu", "1:7", &inside)) };
    timeout(Duration::from_secs(5), calls).await.expect("both are inside").unwrap();
}

#[redis_lock(key = "{tenant:<t>}:order:<id>", ttl = "5s")]
async fn tagged(t: u64, id: u64) -> Result<u64, AppError> {
    Ok(t + id)
}
#[redis_lock(key = "100%\\ {} <<<id>>> {{id}}", ttl = "5s")]
async fn literal(id: u64) -> Result<u64, AppError> {
    Ok(id)
}
#[redis_lock(key = r#"raw:\n"<id>""#, ttl = "5s")]
async fn raw_string(id: u64) -> Result<u64, AppError> {
    Ok(id)
}

#[tokio::test]
async fn keeps_other_characters_literally() {
    assert_eq!(locking("{tenant:7}:order:9", tagged(7, 9)).await.unwrap(), 16);
    assert_eq!(locking("100%\\ {} <1> {{id}}", literal(1)).await.unwrap(), 1);
    assert_eq!(locking("raw:\\n\"1\"", raw_string(1)).await.unwrap(), 1);
}

#[redis_lock(key = "f:<n:04>:<n:x>:<n:#b>:<n:+>:<text:raw>:<text:?>", ttl = "5s")]
async fn formats(n: u64, text: &str) -> Result<u64, AppError> {
    Ok(n + text.len() as u64)
}

#[tokio::test]
async fn formats_values_as_format_does() {
    let key = "f:0010:a:0b1010:+10:a:{b}:\"a%3A%7Bb%7D\"";
    assert_eq!(locking(key, formats(10, "a:{b}")).await.unwrap(), 15);
}

#[redis_lock(key = "z:<day:02>:<n.0:+04>:<n.1:#06>", ttl = "5s")]
async fn zeros(day: &mut NonZeroU8, n: (&i16, f64)) -> Result<u8, AppError> {
    Ok(day.get())
}

#[tokio::test]
async fn pads_numbers_of_all_kinds_with_zeros() {
    let mut day = NonZeroU8::new(7).unwrap();
    assert_eq!(locking("z:07:+012:0001.5", zeros(&mut day, (&12, 1.5))).await.unwrap(), 7);
}

#[redis_lock(key = "global", ttl = "5s")]
async fn no_placeholder() -> Result<(), AppError> {
    work(1).await.map(drop)
}

const CRON: &str = "cron";
#[redis_lock(key = CRON, ttl = "5s")]
async fn constant() -> Result<(), AppError> {
    work(1).await.map(drop)
}
#[redis_lock(key = format!("expr:{id}:<id>"), ttl = "5s")]
async fn expression(id: String) -> Result<String, AppError> {
    Ok(id)
}

#[tokio::test]
async fn accepts_constant_keys_and_expressions() {
    locking("global", no_placeholder()).await.unwrap();
    locking("cron", constant()).await.unwrap();
    assert_eq!(locking("expr:7:<id>", expression("7".to_owned())).await.unwrap(), "7");
}

#[tokio::test]
async fn names_the_key_in_errors() {
    server().await;
    let error = expression(String::from("x").repeat(5_000)).await.unwrap_err();
    assert!(matches!(&error, AppError::Lock(LockError::InvalidKey { .. })), "{error:?}");
    let AppError::Lock(error) = pair(&"x".repeat(513), "7").await.unwrap_err() else { panic!() };
    assert!(error.to_string().contains("`<a>` is longer than 512 bytes"), "{error}");
}
