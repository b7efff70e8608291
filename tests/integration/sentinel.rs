//! Locks in the master that sentinels name.

mod failover;
