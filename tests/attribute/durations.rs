//! Durations.

use std::time::Duration;

use lock_runtime::{LockError, redis_lock};

use super::support::{AppError, locking, server};

#[redis_lock(key = "ttl:500ms", ttl = "500ms")]
async fn milliseconds() -> Result<(), AppError> {
    Ok(())
}
#[redis_lock(key = "ttl:5m", ttl = "5m")]
async fn minutes() -> Result<(), AppError> {
    Ok(())
}
#[redis_lock(key = "ttl:2h", ttl = "2h")]
async fn hours() -> Result<(), AppError> {
    Ok(())
}
#[redis_lock(key = "ttl:mixed", ttl = "1h2m3s4ms")]
async fn mixed() -> Result<(), AppError> {
    Ok(())
}
const TTL: Duration = Duration::from_secs(9);
#[redis_lock(key = "ttl:expression", ttl = 2 * TTL)]
async fn expression() -> Result<(), AppError> {
    Ok(())
}
#[redis_lock(key = "ttl:least", ttl = "100ms", renew = false)]
async fn least() -> Result<(), AppError> {
    Ok(())
}

#[tokio::test]
async fn sends_the_ttl_in_milliseconds() {
    let log = server().await.log();
    locking("ttl:500ms", milliseconds()).await.unwrap();
    locking("ttl:5m", minutes()).await.unwrap();
    locking("ttl:2h", hours()).await.unwrap();
    locking("ttl:mixed", mixed()).await.unwrap();
    locking("ttl:expression", expression()).await.unwrap();
    locking("ttl:least", least()).await.unwrap();

    log.settle().await;
    for (key, ttl) in [
        ("ttl:500ms", "500"),
        ("ttl:5m", "300000"),
        ("ttl:2h", "7200000"),
        ("ttl:mixed", "3723004"),
        ("ttl:expression", "18000"),
        ("ttl:least", "100"),
    ] {
        let commands = log.commands_on(key);
        let set = commands.iter().find(|command| command.is("SET")).unwrap();
        assert_eq!(set.args[3..], ["PX", ttl], "{key}");
    }
}

#[redis_lock(key = "zero:<name>", ttl = ttl)]
async fn zero(name: &str, ttl: Duration) -> Result<(), LockError> {
    unreachable!("{name} runs for {ttl:?}")
}

#[tokio::test]
async fn rejects_a_zero_ttl_before_any_command() {
    let log = server().await.log();
    for ttl in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let error = zero("ttl", ttl).await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOption { .. }), "{error}");
    }
    log.settle().await;
    assert_eq!(log.commands_on("zero:ttl"), []);
}

#[redis_lock(key = "short:<name>", ttl = Duration::from_millis(249))]
async fn short(name: &str) -> Result<(), LockError> {
    unreachable!("{name} runs")
}

#[tokio::test]
async fn names_the_shortest_ttl_with_renewals() {
    server().await;
    let error = short("ttl").await.unwrap_err().to_string();
    assert!(error.contains("250ms"), "{error}");
}
