//! The shop as two processes that share a database and a Redis server.

mod support;

use std::path::Path;
use std::process::Command;

use harness::{Child, Server};
use reqwest::StatusCode;
use serde_json::{Value, json};
use support::{LIMIT, post, served, start};
use tempfile::TempDir;

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
        let (process, url) = start(&command).await;
        Self { process, url }
    }

    async fn stats(&self) -> Value {
        let response = reqwest::get(format!("{}/stats", self.url)).await.unwrap();
        response.json().await.unwrap()
    }
}

/// Sends `count` requests at once, spread over the shops, and returns the status of each.
async fn rush(shops: &[Shop], path: &str, count: usize) -> Vec<StatusCode> {
    let urls: Vec<&str> = shops.iter().map(|shop| &*shop.url).collect();
    post(&urls, path, count).await
}

#[tokio::test]
async fn sells_no_more_than_the_stock_with_two_instances() {
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
    for (statuses, refusals) in [
        (grabs, [StatusCode::GONE, StatusCode::CONFLICT]),
        (payments, [StatusCode::CONFLICT, StatusCode::CONFLICT]),
        (deductions, [StatusCode::GONE, StatusCode::CONFLICT]),
    ] {
        let mut refused = statuses.iter().filter(|status| !status.is_success());
        assert!(refused.all(|status| refusals.contains(status)), "{statuses:?}");
    }
    let stats = json!({
        "coupons": { "issued": 100, "remaining": 0, "grabbed": 100, "overdrawn": 0 },
        "orders": { "paid": 1, "charges": 1, "overcharged": 0 },
        "items": { "stocked": 50, "remaining": 0, "deducted": 50, "overdrawn": 0 },
    });
    assert_eq!(shops[0].stats().await, stats);
    assert_eq!(shops[1].stats().await, stats);
}

#[tokio::test]
async fn sells_more_than_the_stock_without_locks() {
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
async fn sells_no_more_than_the_stock_without_redis() {
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
async fn shuts_down_cleanly_on_ctrl_c() {
    let folder = TempDir::new().unwrap();
    let shop = Shop::open(folder.path(), "memory://", &[]).await;
    let id = shop.process.id().to_string();
    shop.stats().await;

    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();

    assert!(sent.success());
    shop.process.line_matching("shop: closed", LIMIT).await;
    assert!(shop.process.exited(LIMIT).await.success());
}
