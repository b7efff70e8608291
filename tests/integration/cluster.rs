//! Locks in a cluster.

mod failover;
mod locks;
mod slots;
