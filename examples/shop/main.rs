//! A web shop whose handlers read, wait and write, and are correct only because each of them holds
//! a lock. It uses axum and rusqlite; all instances share one database file.
//!
//! One instance, with locks in memory:
//!
//! ```text
//! cargo run -p examples --bin shop
//! ```
//!
//! Two instances, with locks in Redis:
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1 cargo run -p examples --bin shop -- --port 3000
//! REDIS_URL=redis://127.0.0.1 cargo run -p examples --bin shop -- --port 3001
//! ```
//!
//! Without locks, to see what goes wrong:
//!
//! ```text
//! cargo run -p examples --bin shop -- --reset --no-lock
//! ```
//!
//! With `RUST_LOG=lock_runtime=debug`, the log shows every lock.

mod coupons;
mod database;
mod error;
mod items;
mod orders;
mod stats;

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::routing::{get, post};
use clap::Parser;
use lock_runtime::LockManager;
use tokio::net::TcpListener;
use tokio::signal;

use crate::database::Database;

/// Runs a shop that never sells more than it has in stock
#[derive(Debug, Parser)]
struct Args {
    /// Port to listen on, 0 for a free one
    #[arg(long, default_value_t = 3000)]
    port: u16,

    /// Database file, shared by all instances
    #[arg(long, default_value_os_t = env::temp_dir().join("shop.db"))]
    database: PathBuf,

    /// Delete all sales and restock
    #[arg(long)]
    reset: bool,

    /// Run without locks, to see what goes wrong
    #[arg(long)]
    no_lock: bool,

    /// Redis server that stores the locks, shared by all instances
    #[arg(long, env, hide_env_values = true, default_value = "memory://")]
    redis_url: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let args = Args::parse();
    // Installed before the shop listens, so that Ctrl-C always shuts it down cleanly.
    let interrupted = tokio::spawn(interrupted());

    let locks = LockManager::connect(&args.redis_url).await?;
    locks.install();
    let database = Database::open(&args.database, args.reset)
        .with_context(|| format!("cannot open {}", args.database.display()))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .with_context(|| format!("cannot listen on port {}", args.port))?;
    print_usage(&args, listener.local_addr()?);

    let shop = routes(args.no_lock).with_state(database);
    axum::serve(listener, shop).with_graceful_shutdown(async { drop(interrupted.await) }).await?;
    locks.shutdown().await;
    println!("shop: closed");
    Ok(())
}

fn routes(no_lock: bool) -> Router<Database> {
    let (grab, pay, deduct) = if no_lock {
        (post(coupons::grab_unlocked), post(orders::pay_unlocked), post(items::deduct_unlocked))
    } else {
        (post(coupons::grab), post(orders::pay), post(items::deduct))
    };
    Router::new()
        .route("/coupons/{id}/grab", grab)
        .route("/orders/{id}/pay", pay)
        .route("/items/{id}/deduct", deduct)
        .route("/stats", get(stats::stats))
}

fn print_usage(args: &Args, address: SocketAddr) {
    let url = format!("http://{address}");
    println!("shop: database: {}", args.database.display());
    if args.no_lock {
        println!("shop: running without locks");
    } else if args.redis_url.starts_with("memory:") {
        println!("shop: locks are in memory, for one instance only; set REDIS_URL to run several");
    } else {
        println!("shop: locks are in Redis");
    }
    println!("shop: listening on {url}");
    println!("shop: try:");
    println!("  curl -X POST {url}/coupons/1/grab");
    println!("  seq 300 | xargs -P 50 -I{{}} curl -s -o /dev/null -X POST {url}/coupons/1/grab");
    println!("  curl {url}/stats");
}

/// Completes when the user presses Ctrl-C.
async fn interrupted() {
    if let Err(error) = signal::ctrl_c().await {
        tracing::error!(%error, "cannot listen for Ctrl-C");
    }
}

/// Simulates a call to another service.
async fn call_another_service() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}
