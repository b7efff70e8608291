//! Which server keeps which key: one server, the master that sentinels name, or the nodes of a
//! cluster.

mod cluster;
pub(super) mod router;
mod sentinel;
pub(super) mod slot;
