//! Fences in SQLite.

use rusqlite::{Connection, ErrorCode, OptionalExtension as _};
use tempfile::TempDir;

use super::{ARRIVALS, COLUMN, GATES, LAST, PASS, READ, UPDATE};

/// Creates a database with the order 42 and without gates.
fn setup() -> (TempDir, Connection) {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let orders = "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL);
                  INSERT INTO orders VALUES (42, 'new');";
    db.execute_batch(&[orders, COLUMN, GATES].concat()).unwrap();
    (dir, db)
}

/// Opens a connection that does not wait while the database is locked.
fn open(dir: &TempDir) -> Connection {
    let db = Connection::open(dir.path().join("db")).unwrap();
    db.busy_timeout(std::time::Duration::ZERO).unwrap();
    db
}

/// Returns the result of the gate: `None` if the transaction may not continue.
fn pass(db: &Connection, fence: i64) -> rusqlite::Result<Option<i64>> {
    db.query_one(PASS, ("order:42", fence), |row| row.get(0)).optional()
}

#[test]
fn rejects_late_writes_to_a_row() {
    let (_dir, db) = setup();
    let mut expected = "new".to_owned();
    for (nth, (fence, accepted)) in ARRIVALS.into_iter().enumerate() {
        let write = format!("write {nth}");
        let changed = db.execute(UPDATE, (&write, fence, 42)).unwrap();
        assert_eq!(changed, usize::from(accepted), "{write} with {fence}");
        if accepted {
            expected = write;
        }
        let state: String = db.query_one("SELECT state FROM orders", (), |r| r.get(0)).unwrap();
        assert_eq!(state, expected);
    }
}

#[test]
fn rejects_late_writes_to_a_row_after_a_read() {
    let (_dir, db) = setup();
    for (fence, accepted) in ARRIVALS {
        let seen = db.query_one(READ, (fence, 42), |row| row.get("state")).optional().unwrap();
        assert_eq!(seen, accepted.then(|| "new".to_owned()), "{fence}");
    }
    assert_eq!(db.execute(UPDATE, ("late", LAST - 1, 42)).unwrap(), 0);
    assert_eq!(db.execute(UPDATE, ("in time", LAST, 42)).unwrap(), 1);
}

#[test]
fn rejects_late_writes_at_a_gate() {
    let (_dir, db) = setup();
    for (fence, accepted) in ARRIVALS {
        assert_eq!(pass(&db, fence).unwrap(), accepted.then_some(fence), "{fence}");
    }
    assert_eq!(db.query_one(PASS, ("order:43", 1), |row| row.get::<_, i64>(0)).unwrap(), 1);
}

/// Also if the transaction has begun without a lock, as with `BEGIN`.
#[test]
fn admits_one_transaction_at_a_time_at_a_gate() {
    let (dir, newer) = setup();
    let late = open(&dir);
    for (end, accepted) in [("ROLLBACK", Some(1)), ("COMMIT", None)] {
        newer.execute_batch("BEGIN").unwrap();
        assert_eq!(pass(&newer, 2).unwrap(), Some(2));
        late.execute_batch("BEGIN").unwrap();
        let error = pass(&late, 1).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
        newer.execute_batch(end).unwrap();
        assert_eq!(pass(&late, 1).unwrap(), accepted, "after the newer holder's {end}");
        late.execute_batch("ROLLBACK").unwrap();
    }
}
