//! The inventory as two processes that share a folder and, for working locks, a Redis server.

mod support;

use std::fs;
use std::process::Command;

use harness::Server;
use support::{post, served, start};
use tempfile::TempDir;

/// Returns how many of 150 requests get one of 100 pieces, and the stock that is left.
async fn deduct(redis_url: &str) -> (usize, String) {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory"));
    command.args(["--port", "0", "--redis-url", redis_url, "--folder"]).arg(folder.path());
    let [(_first, first_url), (_second, second_url)] =
        [start(&command).await, start(&command).await];

    let statuses = post(&[&first_url, &second_url], "/items/1/deduct", 150).await;

    (served(&statuses), fs::read_to_string(folder.path().join("1")).unwrap())
}

#[tokio::test]
async fn deducts_no_more_than_the_stock_with_two_instances() {
    let redis = Server::start().await;
    assert_eq!(deduct(&redis.url()).await, (100, "0".to_owned()));
}

#[tokio::test]
async fn deducts_more_than_the_stock_when_locks_are_not_shared() {
    let (served, _) = deduct("memory://").await;
    assert!(served > 100, "{served} served");
}
