//! `POST /orders/{id}/pay`: a second click on "pay" must not charge the card again, and gets its
//! response at once.

use axum::Json;
use axum::extract::{Path, State};
use lock_runtime::redis_lock;
use serde::Serialize;

use crate::call_another_service;
use crate::database::Database;
use crate::error::AppError;

#[derive(Debug, Serialize)]
pub(crate) struct Receipt {
    order: u32,
}

/// Charges the card once. Without `wait`, a held lock is an immediate 409 with `Retry-After`.
#[redis_lock(key = "order:<id>", ttl = "5s")]
pub(crate) async fn pay(
    State(database): State<Database>,
    Path(id): Path<u32>,
) -> Result<Json<Receipt>, AppError> {
    pay_unlocked(State(database), Path(id)).await
}

/// Without the lock, overlapping calls all find the order unpaid and all charge the card.
pub(crate) async fn pay_unlocked(
    State(database): State<Database>,
    Path(id): Path<u32>,
) -> Result<Json<Receipt>, AppError> {
    let paid: bool = database
        .run(move |sql| {
            sql.query_one("SELECT paid FROM orders WHERE id = ?", [id], |row| row.get(0))
        })
        .await?;
    if paid {
        return Err(AppError::AlreadyPaid);
    }

    call_another_service().await; // Charge the card.

    database
        .run(move |sql| {
            sql.execute("UPDATE orders SET paid = TRUE WHERE id = ?", [id])?;
            sql.execute("INSERT INTO charges VALUES (?)", [id])
        })
        .await?;
    Ok(Json(Receipt { order: id }))
}
