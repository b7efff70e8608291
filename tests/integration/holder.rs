//! A program that acquires locks, for tests that pause or kill a holder.
//!
//! `holder URL KEY [NAME=NUMBER]...` prints one event per line: `ready` (connected), `held`,
//! `released`, `lost`, `busy`, `failed: …`. Durations are in milliseconds. A `#` in the key becomes
//! the number of the task.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_runtime::{LockError, LockManager};
use tokio::task::JoinSet;
use tokio::time::sleep;

#[derive(Debug, Clone)]
struct Options {
    key: String,
    ttl: Duration,
    wait: Duration,
    hold: Duration,
    tasks: u64,
    rounds: u64,
    /// The Unix time at which to begin.
    at: Duration,
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().expect("missing URL");
    let options = Options::parse(args.next().expect("missing key"), args);
    let locks = LockManager::connect(url).await.expect("the server replies");
    println!("ready");

    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the time is after 1970");
    sleep(options.at.saturating_sub(now)).await;
    let mut tasks = JoinSet::new();
    for task in 0..options.tasks {
        let key = options.key.replace('#', &task.to_string());
        tasks.spawn(take_turns(locks.clone(), Options { key, ..options.clone() }));
    }
    tasks.join_all().await;
    locks.shutdown().await;
}

async fn take_turns(locks: LockManager, options: Options) {
    for _ in 0..options.rounds {
        match turn(&locks, &options).await {
            Ok(()) => println!("released"),
            Err(LockError::Busy { .. }) => println!("busy"),
            Err(LockError::Lost { .. }) => println!("lost"),
            Err(error) => println!("failed: {error}"),
        }
    }
}

async fn turn(locks: &LockManager, options: &Options) -> Result<(), LockError> {
    let guard = locks.lock(&options.key).ttl(options.ttl).wait(options.wait).await?;
    println!("held");
    guard.run(sleep(options.hold)).await?;
    guard.release().await
}

impl Options {
    fn parse(key: String, args: impl Iterator<Item = String>) -> Self {
        let (ttl, none) = (Duration::from_secs(30), Duration::ZERO);
        let mut options = Self { key, ttl, wait: none, hold: none, tasks: 1, rounds: 1, at: none };
        for arg in args {
            let (name, number) = arg.split_once('=').expect("an option is NAME=NUMBER");
            let number = number.parse().expect("an option is a number");
            let duration = Duration::from_millis(number);
            match name {
                "ttl" => options.ttl = duration,
                "wait" => options.wait = duration,
                "hold" => options.hold = duration,
                "at" => options.at = duration,
                "tasks" => options.tasks = number,
                "rounds" => options.rounds = number,
                _ => panic!("unknown option {name}"),
            }
        }
        options
    }
}
