//! The inventory as two processes that share a folder and, when locks are to work, a Redis.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::{Child, Server};
use reqwest::Client;
use tempfile::TempDir;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(60);

/// How many of 150 requests get one of 100 pieces, and how many pieces are left then.
async fn deduct(redis_url: &str) -> (usize, String) {
    let folder = TempDir::new().unwrap();
    let instances = [start(folder.path(), redis_url).await, start(folder.path(), redis_url).await];

    let client = Client::new();
    let mut requests = JoinSet::new();
    for (_, url) in instances.iter().cycle().take(150) {
        let request = client.post(format!("{url}/items/1/deduct")).send();
        requests.spawn(async { request.await.unwrap().status() });
    }
    let answers = requests.join_all().await;

    let served = answers.iter().filter(|answer| answer.is_success()).count();
    (served, fs::read_to_string(folder.path().join("1")).unwrap())
}

async fn start(folder: &Path, redis_url: &str) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory"));
    command.args(["--port", "0", "--redis-url", redis_url, "--folder"]).arg(folder);
    let process = Child::spawn(&command);
    let line = process.line_matching("listening on ", LIMIT).await;
    let url = line.rsplit(' ').next().unwrap().to_owned();
    (process, url)
}

#[tokio::test]
async fn two_instances_never_deduct_more_than_there_is() {
    let redis = Server::start().await;
    assert_eq!(deduct(&redis.url()).await, (100, "0".to_owned()));
}

#[tokio::test]
async fn locks_in_memory_do_not_reach_the_other_instance() {
    let (served, _) = deduct("memory://").await;
    assert!(served > 100, "{served} served");
}
