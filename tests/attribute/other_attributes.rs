//! Combinations with other attributes.

use std::pin::Pin;

use lock_runtime::redis_lock;

use super::support::{AppError, Shop, exists, holding, locking, manager, server, tick, work};

#[async_trait::async_trait]
trait Repo {
    async fn fetch(&self, id: u64) -> Result<u64, AppError>;
    async fn save(&mut self, text: &str, list: Vec<String>) -> Result<usize, AppError>;
    #[redis_lock(key = "default:<id>", ttl = "5s")]
    async fn default_body(&self, id: u64) -> Result<u64, AppError> {
        work(id).await
    }
}
#[async_trait::async_trait]
impl Repo for Shop {
    #[redis_lock(key = "repo:<id>", ttl = "5s")]
    async fn fetch(&self, id: u64) -> Result<u64, AppError> {
        work(id + self.base).await
    }
    #[redis_lock(key = "repo:<self.base>:<text>", ttl = "5s", lease = held)]
    async fn save(&mut self, text: &str, mut list: Vec<String>) -> Result<usize, AppError> {
        tick().await;
        if text == "early" {
            return Err(AppError::Empty);
        }
        list.push(text.to_owned());
        self.base += u64::from(!held.is_lost());
        Ok(list.len())
    }
}

#[tokio::test]
async fn holds_the_lock_in_a_method_of_async_trait() {
    let mut shop = Shop { base: 10 };
    assert_eq!(holding("repo:1", shop.fetch(1)).await.unwrap(), 11);
    assert_eq!(holding("default:1", shop.default_body(1)).await.unwrap(), 1);
    assert_eq!(holding("repo:10:text", shop.save("text", vec![])).await.unwrap(), 1);
    let early = holding("repo:11:early", shop.save("early", vec![])).await;
    assert!(matches!(early, Err(AppError::Empty)));
}

#[redis_lock(key = "hand:<id>", ttl = "5s")]
fn boxed<'a>(
    id: u64,
    text: &'a str,
) -> Pin<Box<dyn std::future::Future<Output = Result<usize, AppError>> + Send + 'a>> {
    if id == 0 {
        return Box::pin(std::future::ready(Err(AppError::Empty)));
    }
    Box::pin(async move {
        tick().await;
        Ok(text.len())
    })
}

#[tokio::test]
async fn accepts_a_function_that_returns_a_boxed_future() {
    assert_eq!(holding("hand:1", boxed(1, "text")).await.unwrap(), 4);
    assert!(locking("hand:0", boxed(0, "text")).await.is_err());
    // Nothing happens before the first poll.
    drop(boxed(2, "text"));
    assert!(!exists(&mut server().await.connection().await, "hand:2").await);
}

/// A test of its own, before which no manager can be installed.
#[redis_lock(key = "t:2", ttl = "5s", manager = manager().await)]
#[tokio::test]
async fn locks_a_test_function() -> Result<(), AppError> {
    let mut redis = server().await.connection().await;
    assert!(exists(&mut redis, "t:2").await);
    work(2).await?;
    assert!(exists(&mut redis, "t:2").await);
    Ok(())
}

#[cfg_attr(test, redis_lock(key = "cfg:<id>", ttl = "5s"))]
async fn conditional(id: u64) -> Result<u64, AppError> {
    work(id).await
}
#[cfg_attr(not(test), redis_lock(key = "cfg:<id>", ttl = "5s"))]
async fn unconditional(id: u64) -> Result<u64, AppError> {
    work(id).await
}

#[tokio::test]
async fn follows_cfg_attr() {
    assert_eq!(holding("cfg:1", conditional(1)).await.unwrap(), 1);
    let log = server().await.log();
    assert_eq!(unconditional(2).await.unwrap(), 2);
    log.settle().await;
    assert_eq!(log.commands_on("cfg:2"), []);
}

#[redis_lock(key = "inner:<id>", ttl = "5s")]
#[redis_lock(key = "outer:<id>", ttl = "5s")]
async fn twice(id: u64) -> Result<u64, AppError> {
    work(id).await
}

#[tokio::test]
async fn takes_the_lock_of_the_lowest_attribute_first() {
    let log = server().await.log();
    let call = Box::pin(holding("outer:1", twice(1)));
    assert_eq!(locking("inner:1", call).await.unwrap(), 1);
    log.settle().await;
    let mut commands = log.entries();
    commands.retain(|command| command.is("SET") || command.is("DEL"));
    commands.retain(|command| command.has("inner:1") || command.has("outer:1"));
    let keys: Vec<_> = commands.iter().map(|command| command.args[1].as_str()).collect();
    assert_eq!(keys, ["outer:1", "inner:1", "inner:1", "outer:1"]);
}

trait Plan {
    #[allow(async_fn_in_trait)]
    #[redis_lock(key = "plan:<id>", ttl = "5s")]
    async fn plan(&self, id: u64) -> Result<u64, AppError> {
        work(id).await
    }
}
impl Plan for u8 {}
impl Plan for Shop {
    #[redis_lock(key = "plan:<id>", ttl = "5s")]
    async fn plan(&self, id: u64) -> Result<u64, AppError> {
        work(id + self.base).await
    }
}

#[tokio::test]
async fn locks_default_and_overridden_trait_methods() {
    assert_eq!(holding("plan:1", 0_u8.plan(1)).await.unwrap(), 1);
    assert_eq!(holding("plan:1", Shop { base: 10 }.plan(1)).await.unwrap(), 11);
}
