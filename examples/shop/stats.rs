//! `GET /stats`: the sales so far, and by how much they exceed the stock.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::database::Database;
use crate::error::AppError;

#[derive(Debug, Serialize)]
pub(crate) struct Stats {
    coupons: Coupons,
    orders: Orders,
    items: Items,
}

#[derive(Debug, Serialize)]
struct Coupons {
    issued: u32,
    remaining: u32,
    grabbed: u32,
    overdrawn: u32,
}

#[derive(Debug, Serialize)]
struct Orders {
    paid: u32,
    charges: u32,
    overcharged: u32,
}

#[derive(Debug, Serialize)]
struct Items {
    stocked: u32,
    remaining: u32,
    deducted: u32,
    overdrawn: u32,
}

const COUPONS: &str = "
    SELECT sum(issued), sum(remaining), (SELECT count(*) FROM grabs) FROM coupons";
const ORDERS: &str = "
    SELECT sum(paid), (SELECT count(*) FROM charges) FROM orders";
const ITEMS: &str = "
    SELECT sum(stocked), sum(remaining), (SELECT coalesce(sum(count), 0) FROM deductions)
    FROM items";

pub(crate) async fn stats(State(database): State<Database>) -> Result<Json<Stats>, AppError> {
    let stats = database.run(|sql| {
        let (issued, remaining, grabbed) = sql.query_one(COUPONS, [], |row| row.try_into())?;
        let coupons =
            Coupons { issued, remaining, grabbed, overdrawn: grabbed.saturating_sub(issued) };
        let (paid, charges) = sql.query_one(ORDERS, [], |row| row.try_into())?;
        let orders = Orders { paid, charges, overcharged: charges.saturating_sub(paid) };
        let (stocked, remaining, deducted) = sql.query_one(ITEMS, [], |row| row.try_into())?;
        let items =
            Items { stocked, remaining, deducted, overdrawn: deducted.saturating_sub(stocked) };
        Ok(Stats { coupons, orders, items })
    });
    stats.await.map(Json)
}
