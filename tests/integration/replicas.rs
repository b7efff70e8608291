//! Locks in a server with replicas.

mod acknowledgement;
mod planned_failover;
