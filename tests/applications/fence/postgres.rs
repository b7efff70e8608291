//! In PostgreSQL.

use harness::{Postgres, eventually};
use tokio_postgres::{Client, NoTls};

use super::{ARRIVALS, COLUMN, GATES, LAST, PASS, READ, UPDATE};
use crate::support::SOON;

pub(super) async fn client(params: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(params, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A server with the order 42 and without gates.
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

/// Whether a write to the order 42 is accepted.
pub(super) async fn update(client: &Client, state: &str, fence: i64) -> bool {
    client.execute(UPDATE, &[&state, &fence, &42_i64]).await.unwrap() == 1
}

/// Whether a transaction may go on.
async fn pass(client: &Client, fence: i64) -> bool {
    client.query_opt(PASS, &[&"order:42", &fence]).await.unwrap().is_some()
}

pub(super) async fn state(client: &Client) -> String {
    client.query_one("SELECT state FROM orders WHERE id = 42", &[]).await.unwrap().get(0)
}

/// Returns when somebody waits for the end of a transaction.
async fn somebody_waits(client: &Client) {
    let waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    eventually("a transaction waits for another", SOON, async || {
        !client.query(waiting, &[]).await.unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_row_turns_late_writers_away() {
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
async fn a_row_that_was_read_turns_late_writers_away() {
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
async fn a_gate_turns_late_writers_away() {
    let (_server, client) = setup().await;
    for (fence, accepted) in ARRIVALS {
        assert_eq!(pass(&client, fence).await, accepted, "{fence}");
    }
    let other = client.query_opt(PASS, &[&"order:43", &1_i64]).await.unwrap();
    assert!(other.is_some(), "the gate of another lock");
}

/// A late write to a row that a newer holder is about to change waits for the outcome.
#[tokio::test]
async fn a_row_decides_after_the_transaction_before() {
    let (server, newer) = setup().await;
    let (late, looking) = (client(&server.params()).await, client(&server.params()).await);
    for (end, accepted) in [("ROLLBACK", true), ("COMMIT", false)] {
        newer.batch_execute("BEGIN").await.unwrap();
        assert!(update(&newer, "newer", 2).await);
        let (late, ()) = tokio::join!(update(&late, "late", 1), async {
            somebody_waits(&looking).await;
            newer.batch_execute(end).await.unwrap();
        });
        assert_eq!(late, accepted, "after the newer holder's {end}");
    }
    assert_eq!(state(&looking).await, "newer");
}

/// The same at the gate, from the very first transaction on. What is read behind it is what the
/// holder before has left.
#[tokio::test]
async fn a_gate_lets_one_transaction_pass_at_a_time() {
    let (server, newer) = setup().await;
    let (other, looking) = (client(&server.params()).await, client(&server.params()).await);
    for (end, fence, accepted) in [("ROLLBACK", 1, true), ("COMMIT", 1, false), ("COMMIT", 3, true)]
    {
        newer.batch_execute("BEGIN").await.unwrap();
        assert!(pass(&newer, 2).await);
        other.batch_execute("BEGIN").await.unwrap();
        let (passed, ()) = tokio::join!(pass(&other, fence), async {
            somebody_waits(&looking).await;
            newer.execute("UPDATE orders SET state = $1", &[&end]).await.unwrap();
            newer.batch_execute(end).await.unwrap();
        });
        assert_eq!(passed, accepted, "{fence} after the {end} of 2");
        let seen = if end == "COMMIT" { end } else { "new" };
        assert_eq!(state(&other).await, seen);
        other.batch_execute("ROLLBACK").await.unwrap();
    }
}
