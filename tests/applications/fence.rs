//! The checks in the documentation of `lock_runtime::fence`, on the data stores they are for.

mod late;
mod postgres;
mod redis;
mod sqlite;

const COLUMN: &str = include_str!("../../lock-runtime/src/fence/column.sql");
const UPDATE: &str = include_str!("../../lock-runtime/src/fence/update.sql");
const READ: &str = include_str!("../../lock-runtime/src/fence/read.sql");
const GATES: &str = include_str!("../../lock-runtime/src/fence/gates.sql");
const PASS: &str = include_str!("../../lock-runtime/src/fence/pass.sql");
const CHECK: &str = include_str!("../../lock-runtime/src/fence/check.lua");

/// The largest possible fence.
const LAST: i64 = (1 << 53) - 1;

/// The fences of writes in order of arrival, and whether each write is accepted.
const ARRIVALS: [(i64, bool); 9] = [
    (9, true),  // the first write
    (9, true),  // the same holder
    (10, true), // the next holder, whose fence is smaller as a string
    (9, false), // the first holder, too late
    (1, false),
    (10, true), // the next holder is not affected
    (LAST - 1, true),
    (LAST, true),
    (LAST - 1, false),
];
