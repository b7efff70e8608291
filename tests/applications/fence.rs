//! The checks that the documentation of `lock_runtime::fence` shows, on the stores they are for.

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

/// The largest fence that there can be.
const LAST: i64 = (1 << 53) - 1;

/// Fences in the order in which writes with them arrive, and whether the write is accepted.
const ARRIVALS: [(i64, bool); 9] = [
    (9, true),  // the first write
    (9, true),  // the same holder
    (10, true), // the next holder, whose number is smaller as a string
    (9, false), // the first one, too late
    (1, false),
    (10, true), // the next one is not disturbed
    (LAST - 1, true),
    (LAST, true),
    (LAST - 1, false),
];
