//! [`Fence`]: the number by which the place where data is kept turns late writers away.
//!
//! A lock with an expiry cannot hold back everybody. A process may be suspended between its last
//! look at the lease and its next write; when it wakes up, somebody else holds the lock, and the
//! write is made all the same. Nothing on the way can prevent that, only the place where the write
//! arrives. For that, each grant of a lock comes with a number that is larger than those of all
//! grants of this lock before, and the holder sends it along:
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
//! What has to be checked:
//!
//! - **A write is accepted if its fence is at least as large as the largest one accepted so far.**
//!   Equal is the same holder again: nobody else has that number, so it tells who it is.
//! - **The comparison and the write are one atomic step.** A check before the write leaves open the
//!   gap that it should close.
//! - **A fence is put in place before the data is read**, if what is written depends on that. Else
//!   a late write is accepted between the reading and the writing.
//! - **Fences are compared as numbers.** Those of Redis stay below 2⁵³, so that they fit in a
//!   `bigint` and in the numbers of Lua and JavaScript.
//! - **A refused writer stops.** It has lost the lock, and no repetition can help.
//!
//! # One row
//!
//! The fence stands next to the data. All SQL on this page is for PostgreSQL and for SQLite.
//!
//! ```sql
#![doc = include_str!("fence/column.sql")]
//! ```
//!
//! Each write compares it and replaces it. Where no row is changed, the writer is late (or there is
//! no such row). To read the row first:
//!
//! ```sql
#![doc = include_str!("fence/update.sql")]
#![doc = include_str!("fence/read.sql")]
//! ```
//!
//! # Many rows and tables
//!
//! One table has a row for each lock that protects something:
//!
//! ```sql
#![doc = include_str!("fence/gates.sql")]
//! ```
//!
//! This is the first statement of each transaction under the lock. Where it returns no row, the
//! writer is late: roll back. It also keeps the row locked until the transaction ends, so that the
//! transactions of an old and a new holder come one after the other.
//!
//! ```sql
#![doc = include_str!("fence/pass.sql")]
//! ```
//!
//! # A hash in Redis
//!
//! With the fence as its only argument, the script just puts it in place: do that before reading.
//!
//! ```lua
#![doc = include_str!("fence/check.lua")]
//! ```
//!
//! # What gains nothing
//!
//! A request to somebody else's service, an e-mail, a payment, a file without conditional writes:
//! where nobody compares, the number protects nothing. If the other side knows idempotency keys,
//! send one that is made of what is to be done, such as `order:42:charge`, so that a repetition has
//! no effect. If it does not, write down first, under the fence, that it is going to be done.
//!
//! # The numbers
//!
//! In Redis, a fence is one more than the last. That is kept in the key `lock-runtime:fence`, for all
//! locks together, so that gaps mean nothing. After data may have been lost, on a new connection or
//! when the key is behind what was seen on an old one, a fence is at least the server's time in
//! microseconds, and the numbers grow on: a clock is ahead of anything that counts grants. With
//! sentinels and in a cluster, each failover adds a day to it; in a cluster, where each slot has a key
//! of its own, that is looked at again every tenth of a second. So the time is behind the last number
//! only if the clock was set back, or if a replica takes over whose clock is behind by more than a day.
//! Then old holders are accepted and new ones refused until the clock has caught up, and two grants could
//! even have the same number. So let clocks be slewed and not stepped.

use std::fmt;

/// A number that comes with every grant of a lock, and is greater than those of all grants before.
///
/// Data that remembers the greatest fence of its writers, and refuses a smaller one, is safe from a
/// holder that does not know that its lease is over: one that was suspended, for example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// A fence of a [`Store`](crate::store::Store). At most `i64::MAX`, which is what databases can
    /// compare: a greater number becomes that.
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

/// For databases, which know no unsigned numbers.
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
