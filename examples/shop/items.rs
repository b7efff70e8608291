//! `POST /items/{id}/deduct?count=2`: takes pieces out of the stock.

use axum::Json;
use axum::extract::{Path, Query, State};
use lock_runtime::redis_lock;
use serde::{Deserialize, Serialize};

use crate::ask_another_service;
use crate::database::Database;
use crate::error::AppError;

#[derive(Debug, Deserialize)]
pub(crate) struct Deduction {
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Serialize)]
pub(crate) struct Stock {
    item: u32,
    left: u32,
}

/// One deduction after the other for each item; different items do not wait for each other.
#[redis_lock(key = "item:<id>", ttl = "10s", wait = "10s")]
pub(crate) async fn deduct(
    State(database): State<Database>,
    Path(id): Path<u32>,
    Query(deduction): Query<Deduction>,
) -> Result<Json<Stock>, AppError> {
    deduct_unlocked(State(database), Path(id), Query(deduction)).await
}

/// Two of these that overlap read the same stock, and one of them is not seen in what is written.
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

    ask_another_service().await; // Are they really on the shelf?

    database
        .run(move |sql| {
            sql.execute("UPDATE items SET remaining = ? WHERE id = ?", [left, id])?;
            sql.execute("INSERT INTO deductions VALUES (?, ?)", [id, count])
        })
        .await?;
    Ok(Json(Stock { item: id, left }))
}
