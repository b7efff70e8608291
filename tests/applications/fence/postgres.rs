//! Fences in PostgreSQL.

use harness::{Postgres, eventually};
use tokio_postgres::{Client, NoTls};

use super::{ARRIVALS, COLUMN, GATES, LAST, PASS, READ, UPDATE};
use crate::support::SOON;

pub(super) async fn client(params: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(params, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Starts a server with the order 42 and without gates.
async fn setup() -> (Postgres, Client) {
    let server = Postgres::start().await;
    let client = client(&server.params()).await;
    create(&client).await;
    (server, client)
}

pub(super) async fn create(client: &Client) {
    let orders = "CREATE TABLE orders (id bigint PRIMARY KEY, state text NOT NULL);
                  INSERT INTO orders VALUES (42, 'new');";
    client.batch_execute(&[orders, COLUMN, GATES].concat()).await.unwrap();
}

/// Writes to the order 42 and returns whether the write was accepted.
pub(super) async fn update(client: &Client, state: &str, fence: i64) -> bool {
    client.execute(UPDATE, &[&state, &fence, &42_i64]).await.unwrap() == 1
}

/// Returns whether a transaction may continue.
async fn pass(client: &Client, fence: i64) -> bool {
    client.query_opt(PASS, &[&"order:42", &fence]).await.unwrap().is_some()
}

pub(super) async fn state(client: &Client) -> String {
    client.query_one("SELECT state FROM orders WHERE id = 42", &[]).await.unwrap().get(0)
}

/// Waits until a transaction is blocked by another one.
async fn wait_for_blocked_transaction(client: &Client) {
    let waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    eventually("a transaction waits for another", SOON, async || {
        !client.query(waiting, &[]).await.unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn rejects_late_writes_to_a_row() {
    let (_server, client) = setup().await;
    let mut expected = "new".to_owned();
    for (nth, (fence, accepted)) in ARRIVALS.into_iter().enumerate() {
        let write = format!("write {nth}");
        assert_eq!(update(&client, &write, fence).await, accepted, "{write} with {fence}");
        if accepted {
            expected = write;
        }
        assert_eq!(state(&client).await, expected);
    }
}

#[tokio::test]
async fn rejects_late_writes_to_a_row_after_a_read() {
    let (_server, client) = setup().await;
    for (fence, accepted) in ARRIVALS {
        let read = client.query_opt(READ, &[&fence, &42_i64]).await.unwrap();
        let seen = read.map(|row| row.get("state"));
        assert_eq!(seen, accepted.then(|| "new".to_owned()), "{fence}");
    }
    assert!(!update(&client, "late", LAST - 1).await);
    assert!(update(&client, "in time", LAST).await);
}

#[tokio::test]
async fn rejects_late_writes_at_a_gate() {
    let (_server, client) = setup().await;
    for (fence, accepted) in ARRIVALS {
        assert_eq!(pass(&client, fence).await, accepted, "{fence}");
    }
    let other = client.query_opt(PASS, &[&"order:43", &1_i64]).await.unwrap();
    assert!(other.is_some(), "the gate of another lock");
}

/// A late write waits for the transaction of a newer holder that has changed the row.
#[tokio::test]
async fn decides_about_a_row_after_the_earlier_transaction() {
    let (server, newer) = setup().await;
    let (late, observer) = (client(&server.params()).await, client(&server.params()).await);
    for (end, accepted) in [("ROLLBACK", true), ("COMMIT", false)] {
        newer.batch_execute("BEGIN").await.unwrap();
        assert!(update(&newer, "newer", 2).await);
        let (late, ()) = tokio::join!(update(&late, "late", 1), async {
            wait_for_blocked_transaction(&observer).await;
            newer.batch_execute(end).await.unwrap();
        });
        assert_eq!(late, accepted, "after the newer holder's {end}");
    }
    assert_eq!(state(&observer).await, "newer");
}

/// The gate works from the first transaction on, and reads behind it see the previous holder's
/// writes.
#[tokio::test]
async fn admits_one_transaction_at_a_time_at_a_gate() {
    let (server, newer) = setup().await;
    let (other, observer) = (client(&server.params()).await, client(&server.params()).await);
    for (end, fence, accepted) in [("ROLLBACK", 1, true), ("COMMIT", 1, false), ("COMMIT", 3, true)]
    {
        newer.batch_execute("BEGIN").await.unwrap();
        assert!(pass(&newer, 2).await);
        other.batch_execute("BEGIN").await.unwrap();
        let (passed, ()) = tokio::join!(pass(&other, fence), async {
            wait_for_blocked_transaction(&observer).await;
            newer.execute("UPDATE orders SET state = $1", &[&end]).await.unwrap();
            newer.batch_execute(end).await.unwrap();
        });
        assert_eq!(passed, accepted, "{fence} after the {end} of 2");
        let seen = if end == "COMMIT" { end } else { "new" };
        assert_eq!(state(&other).await, seen);
        other.batch_execute("ROLLBACK").await.unwrap();
    }
}
