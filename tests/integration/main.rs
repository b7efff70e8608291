//! Behaviour of the lock on real servers.
//!
//! A folder holds the tests that need the same: one server, sentinels, a cluster and so on.

mod clocks;
mod cluster;
mod network;
mod redlock;
mod replicas;
mod sentinel;
mod single;
mod support;
mod topologies;
