//! `POST /coupons/{id}/grab`: all customers arrive in the same second and queue for the lock.

use axum::Json;
use axum::extract::{Path, State};
use lock_runtime::redis_lock;
use serde::Serialize;

use crate::call_another_service;
use crate::database::Database;
use crate::error::AppError;

#[derive(Debug, Serialize)]
pub(crate) struct Grab {
    coupon: u32,
    left: u32,
}

/// Serves one customer at a time across all instances; a wait over ten seconds ends in a 409.
#[redis_lock(key = "coupon:<id>", ttl = "10s", wait = "10s")]
pub(crate) async fn grab(
    State(database): State<Database>,
    Path(id): Path<u32>,
) -> Result<Json<Grab>, AppError> {
    grab_unlocked(State(database), Path(id)).await
}

/// Without the lock, overlapping calls read the same number and hand out the same coupon twice.
pub(crate) async fn grab_unlocked(
    State(database): State<Database>,
    Path(id): Path<u32>,
) -> Result<Json<Grab>, AppError> {
    let left: u32 = database
        .run(move |sql| {
            sql.query_one("SELECT remaining FROM coupons WHERE id = ?", [id], |row| row.get(0))
        })
        .await?;
    let left = left.checked_sub(1).ok_or(AppError::SoldOut)?;

    call_another_service().await; // Is this customer eligible?

    database
        .run(move |sql| {
            sql.execute("UPDATE coupons SET remaining = ? WHERE id = ?", [left, id])?;
            sql.execute("INSERT INTO grabs VALUES (?)", [id])
        })
        .await?;
    Ok(Json(Grab { coupon: id, left }))
}
