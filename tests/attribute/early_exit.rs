//! Early exits, and the body's own code.

use std::cell::RefCell;

use lock_runtime::redis_lock;

use super::support::{AppError, Shop, holding, locking, tick};

#[redis_lock(key = "pay:<id>", ttl = "30s")]
async fn pay(id: u64, text: &str) -> Result<u64, AppError> {
    if id == 0 {
        return Err(AppError::Empty);
    }
    let n: u64 = text.parse()?;
    Ok(n)
}

#[tokio::test]
async fn releases_on_every_way_out() {
    assert!(matches!(locking("pay:0", pay(0, "x")).await, Err(AppError::Empty)));
    let Err(AppError::Parse(error)) = locking("pay:1", pay(1, "x")).await else { panic!() };
    assert_eq!(error.to_string(), "invalid digit found in string");
    assert_eq!(locking("pay:1", pay(1, "7")).await.unwrap(), 7);
}

impl Shop {
    #[redis_lock(key = "sum:<id>", ttl = "5s")]
    async fn total(&self, id: u64) -> Result<u64, AppError> {
        macro_rules! base {
            () => {
                self.base
            };
        }
        Ok(base!() + id)
    }
}

#[tokio::test]
async fn resolves_self_in_a_macro_of_the_body() {
    assert_eq!(locking("sum:1", Shop { base: 10 }.total(1)).await.unwrap(), 11);
}

struct Level {
    id: u64,
    level: u64,
}
#[redis_lock(key = "lvl:<id>", ttl = "5s")]
async fn level(id: u64) -> Result<u64, AppError> {
    let l = Level {
        id,
        #[cfg(test)]
        level: 1,
        #[cfg(not(test))]
        level: 2,
    };
    Ok(l.id + l.level)
}

/// The package `renamed` has the build without `cfg(test)`.
#[tokio::test]
async fn keeps_cfg_attributes_of_the_body() {
    assert_eq!(locking("lvl:10", level(10)).await.unwrap(), 11);
}

thread_local! {
    static DROPS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

struct Noisy(&'static str);

impl Noisy {
    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops.push(self.0));
    }
}

async fn unlocked_tail(arg: Noisy) -> Result<usize, AppError> {
    let _local = Noisy("local");
    tick().await;
    Ok(Noisy("temporary").len() + arg.len())
}
#[redis_lock(key = "tail", ttl = "5s")]
async fn tail(arg: Noisy) -> Result<usize, AppError> {
    let _local = Noisy("local");
    tick().await;
    Ok(Noisy("temporary").len() + arg.len())
}

/// The order of the first two depends on the edition; `edition-2021` tests the other one.
#[tokio::test]
async fn drops_values_in_the_order_of_the_users_edition() {
    assert_eq!(unlocked_tail(Noisy("arg")).await.unwrap(), 12);
    let without = DROPS.take();
    assert_eq!(holding("tail", tail(Noisy("arg"))).await.unwrap(), 12);
    assert_eq!(DROPS.take(), without);
    assert_eq!(without.len(), 3);
}
