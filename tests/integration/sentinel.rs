//! Locks in the master that sentinels report.

mod discovery;
mod failover;
