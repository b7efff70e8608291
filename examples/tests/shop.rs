//! The shop as two processes that share a database and a Redis.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::{Child, Server};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(60);

/// A running shop.
struct Shop {
    process: Child,
    url: String,
}

impl Shop {
    async fn open(folder: &Path, redis_url: &str, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        command
            .args(["--port", "0", "--redis-url", redis_url, "--database"])
            .arg(folder.join("shop.db"))
            .args(options);
        let process = Child::spawn(&command);
        let line = process.line_matching("listening on ", LIMIT).await;
        let url = line.rsplit(' ').next().unwrap().to_owned();
        Self { process, url }
    }

    async fn stats(&self) -> Value {
        let answer = reqwest::get(format!("{}/stats", self.url)).await.unwrap();
        answer.json().await.unwrap()
    }
}

/// Sends `count` requests at once, to one shop after the other, and returns all answers.
async fn rush(shops: &[Shop], path: &str, count: usize) -> Vec<StatusCode> {
    let client = Client::new();
    let mut requests = JoinSet::new();
    for shop in shops.iter().cycle().take(count) {
        let request = client.post(format!("{}{path}", shop.url)).send();
        requests.spawn(async { request.await.unwrap().status() });
    }
    requests.join_all().await
}

fn served(answers: &[StatusCode]) -> usize {
    answers.iter().filter(|answer| answer.is_success()).count()
}

#[tokio::test]
async fn two_instances_never_sell_more_than_there_is() {
    let redis = Server::start().await;
    let folder = TempDir::new().unwrap();
    let shops = [
        Shop::open(folder.path(), &redis.url(), &[]).await,
        Shop::open(folder.path(), &redis.url(), &[]).await,
    ];

    let grabs = rush(&shops, "/coupons/1/grab", 300).await;
    let payments = rush(&shops, "/orders/1/pay", 20).await;
    let deductions = rush(&shops, "/items/1/deduct?count=2", 40).await;

    assert_eq!(served(&grabs), 100);
    assert_eq!(served(&payments), 1);
    assert_eq!(served(&deductions), 25);
    for (answers, refusals) in [
        (grabs, [StatusCode::GONE, StatusCode::CONFLICT]),
        (payments, [StatusCode::CONFLICT, StatusCode::CONFLICT]),
        (deductions, [StatusCode::GONE, StatusCode::CONFLICT]),
    ] {
        let mut refused = answers.iter().filter(|answer| !answer.is_success());
        assert!(refused.all(|answer| refusals.contains(answer)), "{answers:?}");
    }
    let books = json!({
        "coupons": { "issued": 100, "remaining": 0, "grabbed": 100, "overdrawn": 0 },
        "orders": { "paid": 1, "charges": 1, "overcharged": 0 },
        "items": { "stocked": 50, "remaining": 0, "deducted": 50, "overdrawn": 0 },
    });
    assert_eq!(shops[0].stats().await, books);
    assert_eq!(shops[1].stats().await, books);
}

#[tokio::test]
async fn without_locks_they_do() {
    let folder = TempDir::new().unwrap();
    let shops = [
        Shop::open(folder.path(), "memory://", &["--no-lock"]).await,
        Shop::open(folder.path(), "memory://", &["--no-lock"]).await,
    ];

    let grabs = rush(&shops, "/coupons/1/grab", 300).await;
    let payments = rush(&shops, "/orders/1/pay", 20).await;
    let deductions = rush(&shops, "/items/1/deduct?count=2", 100).await;

    assert!(served(&grabs) > 100, "{} grabs", served(&grabs));
    assert!(served(&payments) > 1, "{} payments", served(&payments));
    assert!(served(&deductions) > 25, "{} deductions", served(&deductions));
    let stats = shops[0].stats().await;
    assert_eq!(stats["coupons"]["overdrawn"], served(&grabs) - 100);
    assert_eq!(stats["orders"]["overcharged"], served(&payments) - 1);
    assert_eq!(stats["items"]["overdrawn"], served(&deductions) * 2 - 50);
}

#[tokio::test]
async fn one_instance_does_without_redis() {
    let folder = TempDir::new().unwrap();
    let shops = [Shop::open(folder.path(), "memory://", &[]).await];
    let output = shops[0].process.lines().join("\n");
    assert!(output.contains("locks are in memory"), "{output}");

    let grabs = rush(&shops, "/coupons/1/grab", 300).await;

    assert_eq!(served(&grabs), 100);
    let missing = rush(&shops, "/coupons/2/grab", 1).await;
    assert_eq!(missing, [StatusCode::NOT_FOUND]);
}

#[tokio::test]
async fn ctrl_c_closes_the_shop() {
    let folder = TempDir::new().unwrap();
    let shop = Shop::open(folder.path(), "memory://", &[]).await;
    let id = shop.process.id().to_string();
    shop.stats().await;

    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();

    assert!(sent.success());
    shop.process.line_matching("shop: closed", LIMIT).await;
    assert!(shop.process.exited(LIMIT).await.success());
}
