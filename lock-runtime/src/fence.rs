//! [`Fence`]: the number by which a data store recognises and refuses late writers.
//!
//! A lock with an expiry cannot hold every process back. A process may be suspended between its
//! last check of the lease and its next write; when it wakes up, another process holds the lock,
//! and the write happens all the same. Only the data store that receives the write can prevent
//! that. For this purpose, each grant of a lock comes with a number that is larger than those of
//! all earlier grants of this lock, and the holder sends it along:
//!
//! ```
//! use lock_runtime::{LockError, redis_lock};
//!
//! #[redis_lock(key = "order:<id>", ttl = "30s", lease = lease)]
//! async fn pay(id: i64) -> Result<bool, LockError> {
//!     let changed = update_order("paid", lease.fence().into(), id).await;
//!     Ok(changed == 1)
//! }
//! # async fn update_order(_: &str, _fence: i64, _: i64) -> u64 { 1 }
//! ```
//!
//! Five rules make this safe:
//!
//! - **A write is accepted if its fence is at least as large as the largest one accepted so far.**
//!   An equal fence comes from the same holder, because no other grant has that number.
//! - **The comparison and the write are one atomic step.** A separate check before the write leaves
//!   open the gap that it should close.
//! - **The fence is stored before the data is read**, if what is written depends on what was read.
//!   Otherwise, a late write is accepted between the read and the write.
//! - **Fences are compared as numbers.** Fences from Redis stay below 2⁵³, so they fit in a
//!   `bigint` and in the numbers of Lua and JavaScript.
//! - **A refused writer stops.** It has lost the lock, and a retry cannot help.
//!
//! # One row
//!
//! The fence is a column next to the data. All SQL on this page is for PostgreSQL and for SQLite.
//!
//! ```sql
#![doc = include_str!("fence/column.sql")]
//! ```
//!
//! Each write compares and replaces it. If no row is changed, the writer is late (or the row does
//! not exist). To read the row before writing it:
//!
//! ```sql
#![doc = include_str!("fence/update.sql")]
#![doc = include_str!("fence/read.sql")]
//! ```
//!
//! # Many rows and tables
//!
//! A separate table has one row for each lock that protects data:
//!
//! ```sql
#![doc = include_str!("fence/gates.sql")]
//! ```
//!
//! The following is the first statement of each transaction under the lock. If it returns no row,
//! the writer is late and has to roll back. It also keeps the row locked until the transaction
//! ends, so the transactions of an old and a new holder run one after the other.
//!
//! ```sql
#![doc = include_str!("fence/pass.sql")]
//! ```
//!
//! # A hash in Redis
//!
//! With the fence as its only argument, the script just stores the fence; call it that way before
//! reading.
//!
//! ```lua
#![doc = include_str!("fence/check.lua")]
//! ```
//!
//! # Where fences do not help
//!
//! A request to an external service, an e-mail, a payment, a file without conditional writes: if
//! the receiver does not compare the number, the number protects nothing. If the receiver supports
//! idempotency keys, send one that is derived from the operation, such as `order:42:charge`, so
//! that a repetition has no effect. Otherwise, first record, under the fence, that the operation is
//! going to happen.
//!
//! # How the numbers grow
//!
//! In Redis, a fence is the previous fence plus one. The last number is kept in the key
//! `lock-runtime:fence`, for all locks together, so gaps mean nothing.
//!
//! The counter may have lost numbers together with other data. Therefore, on a new connection, and
//! when the counter is behind a number that was seen on an existing connection, the fence is at
//! least the server's time in microseconds. The numbers keep growing, because a clock is ahead of
//! any count of grants. With sentinels and in a cluster, each failover adds a day to that time; in
//! a cluster, where each slot has a counter of its own, the check for failovers is repeated every
//! tenth of a second.
//!
//! So the time is behind the last number only if the clock was set back, or if the clock of the
//! promoted replica is behind by more than a day. Until the clock has caught up, old holders are
//! then accepted and new ones refused, and two grants could even have the same number. Configure
//! the servers to slew their clocks, not to step them.

use std::fmt;

/// A number that comes with every grant of a lock, and is greater than those of all earlier grants.
///
/// A data store that remembers the greatest fence of its writers, and refuses smaller ones, is safe
/// from a holder that does not know that its lease is over, such as a suspended process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// Creates a fence for a [`Store`](crate::store::Store). A number above `i64::MAX`, the
    /// greatest that databases can compare, is reduced to it.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number.min(i64::MAX as u64))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

/// For databases, which have no unsigned numbers.
impl From<Fence> for i64 {
    fn from(fence: Fence) -> Self {
        fence.0.try_into().unwrap_or(Self::MAX)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
