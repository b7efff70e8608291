//! Locks in a cluster.

mod locks;
