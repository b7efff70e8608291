//! When values of the body are dropped.

use std::cell::RefCell;

use lock_runtime::{redis_lock, LockError};

use crate::support::{holding, tick};

thread_local! {
    static DROPS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

struct Noisy(&'static str);

impl Noisy {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn none(&self) -> Option<usize> {
        self.0.is_empty().then_some(0)
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        DROPS.with_borrow_mut(|drops| drops.push(self.0));
    }
}

async fn unlocked_tail(arg: Noisy) -> Result<usize, LockError> {
    let _local = Noisy("local");
    tick().await;
    Ok(Noisy("temporary").len() + arg.len())
}
#[redis_lock(key = "tail", ttl = "5s")]
async fn tail(arg: Noisy) -> Result<usize, LockError> {
    let _local = Noisy("local");
    tick().await;
    Ok(Noisy("temporary").len() + arg.len())
}

/// Since edition 2024, the temporary is dropped before the local variable.
#[tokio::test]
async fn drops_temporaries_of_the_last_expression_after_locals() {
    assert_eq!(unlocked_tail(Noisy("arg")).await.unwrap(), 12);
    assert_eq!(DROPS.take(), ["local", "temporary", "arg"]);
    assert_eq!(holding("tail", tail(Noisy("arg"))).await.unwrap(), 12);
    assert_eq!(DROPS.take(), ["local", "temporary", "arg"]);
}

#[redis_lock(key = "iflet", ttl = "5s")]
async fn if_let() -> Result<usize, LockError> {
    tick().await;
    let length =
        if let Some(length) = Noisy("scrutinee").none() { length } else { Noisy("else").len() };
    Ok(length)
}

/// Since edition 2024, the scrutinee is dropped before the `else` block.
#[tokio::test]
async fn drops_the_scrutinee_of_if_let_after_the_else_block() {
    assert_eq!(holding("iflet", if_let()).await.unwrap(), 4);
    assert_eq!(DROPS.take(), ["else", "scrutinee"]);
}
