//! Connections to Redis servers. Nothing here knows about locks.

pub(super) mod connection;
pub(super) mod connector;
pub(super) mod error;
pub(super) mod fan_out;
pub(super) mod handshake;
pub(super) mod pool;
pub(super) mod pubsub;
pub(super) mod replication;
pub(super) mod script;
pub(super) mod single_flight;
#[cfg(feature = "tls")]
pub(super) mod tls;
pub(super) mod url;
mod write;
