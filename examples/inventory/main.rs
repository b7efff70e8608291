//! A stock of items that is stored in files and served by several processes. It uses actix-web, and
//! the lock manager is part of the application data.
//!
//! One instance, with locks in memory:
//!
//! ```text
//! cargo run -p examples --bin inventory
//! ```
//!
//! Two instances, with locks in Redis:
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1 cargo run -p examples --bin inventory -- --port 3000
//! REDIS_URL=redis://127.0.0.1 cargo run -p examples --bin inventory -- --port 3001
//! ```

use std::env;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{App, HttpResponse, HttpServer, ResponseError, post, web};
use anyhow::Context as _;
use clap::Parser;
use lock_runtime::{LockError, LockManager, redis_lock};
use tokio::{fs, signal};

/// Serves a stock of items that several instances share
#[derive(Debug, Parser)]
struct Args {
    /// Port to listen on, 0 for a free one
    #[arg(long, default_value_t = 3000)]
    port: u16,

    /// Folder with one file per item, shared by all instances
    #[arg(long, default_value_os_t = env::temp_dir().join("inventory"))]
    folder: PathBuf,

    /// Redis server that stores the locks, shared by all instances
    #[arg(long, env, hide_env_values = true, default_value = "memory://")]
    redis_url: String,
}

struct Inventory {
    folder: PathBuf,
    locks: LockManager,
}

impl Inventory {
    fn file(&self, id: u32) -> PathBuf {
        self.folder.join(id.to_string())
    }
}

/// Deducts one piece of an item and responds with the number of pieces left.
#[post("/items/{id}/deduct")]
#[redis_lock(key = "item:<id>", ttl = "10s", wait = "10s", manager = inventory.locks)]
async fn deduct(
    id: web::Path<u32>,
    inventory: web::Data<Inventory>,
) -> Result<String, DeductError> {
    let file = inventory.file(*id);
    let stock = read(&file).await?.checked_sub(1);
    let stock = stock.ok_or(DeductError::SoldOut)?;
    tokio::time::sleep(Duration::from_millis(5)).await; // Simulates fetching the piece.
    write(&file, stock).await?;
    Ok(format!("{stock} left\n"))
}

/// Stocks an item with 100 pieces unless another instance has already done so.
#[redis_lock(key = "item:<id>", ttl = "10s", wait = "10s", manager = inventory.locks)]
async fn stock_up(id: u32, inventory: &Inventory) -> anyhow::Result<()> {
    let file = inventory.file(id);
    if !fs::try_exists(&file).await? {
        write(&file, 100).await?;
    }
    Ok(())
}

/// The reasons why a deduction fails.
#[derive(Debug, thiserror::Error)]
enum DeductError {
    #[error("sold out")]
    SoldOut,
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot access the file of this item")]
    File(#[from] io::Error),
}

impl ResponseError for DeductError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::SoldOut => StatusCode::GONE,
            Self::Lock(error) => error.status_code(),
            Self::File(error) if error.kind() == io::ErrorKind::NotFound => StatusCode::NOT_FOUND,
            Self::File(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        match self {
            // A busy lock becomes a response with `Retry-After`.
            Self::Lock(error) => error.error_response(),
            error => HttpResponse::build(error.status_code()).body(error.to_string()),
        }
    }
}

async fn read(file: &Path) -> io::Result<u32> {
    let stock = fs::read_to_string(file).await?;
    stock.trim().parse().map_err(io::Error::other)
}

/// Replaces the file atomically, so that no reader sees half of it.
async fn write(file: &Path, stock: u32) -> io::Result<()> {
    let draft = file.with_extension(process::id().to_string());
    fs::write(&draft, stock.to_string()).await?;
    fs::rename(&draft, file).await
}

#[actix_web::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let Args { port, folder, redis_url } = Args::parse();

    let locks = LockManager::connect(&redis_url).await?;
    if redis_url.starts_with("memory:") {
        println!(
            "inventory: locks are in memory, for one instance only; set REDIS_URL to run several"
        );
    }

    fs::create_dir_all(&folder).await?;
    let inventory = web::Data::new(Inventory { folder, locks: locks.clone() });
    stock_up(1, &inventory).await?;
    let server = HttpServer::new(move || App::new().app_data(inventory.clone()).service(deduct))
        .workers(2)
        .shutdown_signal(async { drop(signal::ctrl_c().await) })
        .bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("cannot listen on port {port}"))?;
    for address in server.addrs() {
        println!("inventory: listening on http://{address}");
        println!("inventory: try:\n  curl -X POST http://{address}/items/1/deduct");
    }
    server.run().await?;
    locks.shutdown().await;
    println!("inventory: closed");
    Ok(())
}
