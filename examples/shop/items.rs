//! `POST /items/{id}/deduct?count=2`: deducts pieces from the stock.

use axum::Json;
use axum::extract::{Path, Query, State};
use lock_runtime::redis_lock;
use serde::{Deserialize, Serialize};

use crate::call_another_service;
use crate::database::Database;
use crate::error::AppError;

#[derive(Debug, Deserialize)]
pub(crate) struct Deduction {
    #[serde(default = "one_piece")]
    count: u32,
}

fn one_piece() -> u32 {
    1
}

#[derive(Debug, Serialize)]
pub(crate) struct Stock {
    item: u32,
    left: u32,
}

/// Makes one deduction at a time per item; different items do not wait for each other.
#[redis_lock(key = "item:<id>", ttl = "10s", wait = "10s")]
pub(crate) async fn deduct(
    State(database): State<Database>,
    Path(id): Path<u32>,
    Query(deduction): Query<Deduction>,
) -> Result<Json<Stock>, AppError> {
    deduct_unlocked(State(database), Path(id), Query(deduction)).await
}

/// Without the lock, overlapping calls read the same stock, and all but one deduction are lost.
pub(crate) async fn deduct_unlocked(
    State(database): State<Database>,
    Path(id): Path<u32>,
    Query(Deduction { count }): Query<Deduction>,
) -> Result<Json<Stock>, AppError> {
    let left: u32 = database
        .run(move |sql| {
            sql.query_one("SELECT remaining FROM items WHERE id = ?", [id], |row| row.get(0))
        })
        .await?;
    let left = left.checked_sub(count).ok_or(AppError::SoldOut)?;

    call_another_service().await; // Does the warehouse confirm the stock?

    database
        .run(move |sql| {
            sql.execute("UPDATE items SET remaining = ? WHERE id = ?", [left, id])?;
            sql.execute("INSERT INTO deductions VALUES (?, ?)", [id, count])
        })
        .await?;
    Ok(Json(Stock { item: id, left }))
}
