//! A rival with our lock, in four tasks: `rival URL KEY`.
//!
//! Like the other rivals, it acquires the lock repeatedly and prints the begin and the end of each
//! turn, in nanoseconds of the system's monotonic clock.

use std::convert::Infallible;
use std::time::Duration;

use lock_runtime::{LockError, LockManager};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let args: Vec<String> = std::env::args().collect();
    let [_, url, key] = &args[..] else { panic!("rival URL KEY") };
    let locks = &LockManager::connect(&**url).await?;
    let rival = || take_turns(locks, key);
    tokio::try_join!(rival(), rival(), rival(), rival())?;
    Ok(())
}

async fn take_turns(locks: &LockManager, key: &str) -> Result<Infallible, LockError> {
    loop {
        let guard = locks.lock(key).ttl(Duration::from_secs(10)).wait_forever().await?;
        let enter = now();
        sleep(Duration::from_millis(5)).await;
        let leave = now();
        guard.release().await?;
        println!("turn {enter} {leave}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn now() -> u128 {
    let now: Duration =
        clock_gettime(ClockId::Monotonic).try_into().expect("the clock is not before its zero");
    now.as_nanos()
}
