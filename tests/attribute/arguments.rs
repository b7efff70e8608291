//! Arguments.

use std::time::SystemTime;

use lock_runtime::redis_lock;

use super::support::{AppError, Permit, Shop, holding, locking, server, tick, work};

#[redis_lock(key = "bump:<id>", ttl = "5s")]
async fn bump(id: u64, mut n: u64) -> Result<u64, AppError> {
    n += id;
    Ok(n)
}
impl Shop {
    #[redis_lock(key = "grow:<id>", ttl = "5s")]
    async fn grow(mut self, id: u64) -> Result<Self, AppError> {
        self.base += id;
        Ok(self)
    }
}

#[tokio::test]
async fn accepts_mutable_arguments() {
    assert_eq!(locking("bump:1", bump(1, 2)).await.unwrap(), 3);
    assert_eq!(locking("grow:1", Shop { base: 10 }.grow(1)).await.unwrap().base, 11);
}

struct Point {
    x: u64,
    y: u64,
}
#[redis_lock(key = "pt:<x>:<id>", ttl = "5s")]
async fn area((id, scale): (u64, u64), Point { x, y }: Point) -> Result<u64, AppError> {
    Ok(id + x * y * scale)
}

#[redis_lock(key = "at:<id>:<whole.1>", ttl = "5s")]
async fn at(whole @ (id, _): (u64, u64)) -> Result<u64, AppError> {
    Ok(id + whole.1)
}

#[tokio::test]
async fn uses_names_bound_by_patterns_in_the_key() {
    assert_eq!(locking("pt:3:9", area((9, 2), Point { x: 3, y: 4 })).await.unwrap(), 33);
    assert_eq!(locking("at:1:2", at((1, 2))).await.unwrap(), 3);
}

#[redis_lock(key = "part:<id>", ttl = "5s")]
async fn part(
    id: u64,
    #[cfg(not(test))] _extra: u64,
    #[cfg(test)] _text: &str,
) -> Result<u64, AppError> {
    Ok(id)
}
#[redis_lock(key = "named:<id>", ttl = "5s")]
async fn named(
    id: u64,
    #[cfg(not(test))] extra: usize,
    #[cfg(test)] text: &str,
) -> Result<usize, AppError> {
    #[cfg(test)]
    let extra = text.len();
    tick().await;
    Ok(extra)
}

/// The package `renamed` has the build without `cfg(test)`.
#[tokio::test]
async fn omits_parameters_disabled_by_cfg() {
    assert_eq!(locking("part:1", part(1, "text")).await.unwrap(), 1);
    assert_eq!(holding("named:1", named(1, "text")).await.unwrap(), 4);
}

#[redis_lock(key = "send:<id>:<to>", ttl = "5s")]
async fn send(id: String, to: &str) -> Result<usize, AppError> {
    let n = to.len();
    drop(id);
    tick().await;
    Ok(n)
}

#[tokio::test]
async fn keeps_the_key_after_its_arguments_are_dropped() {
    assert_eq!(holding("send:i:you", send("i".to_owned(), "you")).await.unwrap(), 3);
}

#[redis_lock(key = "hold:<id>", ttl = "5s")]
async fn hold(id: u64, _permit: Permit) -> Result<(), AppError> {
    work(id).await?;
    Ok(())
}
#[redis_lock(key = "end:<id>", ttl = "5s")]
async fn end(id: u64, _permit: Permit) -> Result<SystemTime, AppError> {
    work(id).await?;
    Ok(SystemTime::now())
}

#[tokio::test]
async fn keeps_an_unused_argument_until_the_end_of_the_body() {
    let start = SystemTime::now();
    holding("hold:1", hold(1, Permit)).await.unwrap();
    assert!(start < Permit::dropped());
    let end = holding("end:1", end(1, Permit)).await.unwrap();
    assert!(end <= Permit::dropped());
}

#[redis_lock(key = "whole:<id>", ttl = "5s")]
async fn whole(id: u64, pair: (String, Permit)) -> Result<String, AppError> {
    work(id).await?;
    Ok(pair.0)
}
#[redis_lock(key = "aside:<id>", ttl = "5s")]
async fn aside(id: u64, permit: Permit) -> Result<(), AppError> {
    if id == 0 {
        drop(permit);
    }
    work(id).await?;
    Ok(())
}

#[tokio::test]
async fn drops_used_arguments_before_the_release() {
    let log = server().await.log();
    let released = async |key: &str| {
        log.settle().await;
        let commands = log.commands_on(key);
        let release = commands.iter().find(|command| command.is("DEL")).unwrap();
        SystemTime::UNIX_EPOCH + release.at
    };

    assert_eq!(holding("whole:1", whole(1, ("text".to_owned(), Permit))).await.unwrap(), "text");
    assert!(Permit::dropped() < released("whole:1").await);
    holding("aside:1", aside(1, Permit)).await.unwrap();
    assert!(Permit::dropped() < released("aside:1").await);
}
