//! Starts real servers for tests, watches them and disturbs them.
//!
//! - [`Server`] is a `redis-server` process for one test.
//! - [`Sentinels`] is a master with replicas and sentinels, [`Cluster`] a Redis Cluster.
//! - [`Network`] gives each server a node of its own, and partitions them.
//! - [`Postgres`] is a PostgreSQL server for one test: data that a lock protects.
//! - [`Proxy`] relays between a client and a server; it delays, holds or drops bytes, and cuts
//!   connections.
//! - [`CommandLog`] records the commands that a server runs.
//! - [`Child`] is any other process, such as a second holder of a lock.
//! - [`Certificates`] are an authority, and certificates for TLS.
//! - [`Clock`] is the wall clock of a process, which a test can set.
//! - [`pip()`] and [`npm()`] install packages of `PyPI` and npm.
//! - [`locking()`] and [`holding()`] check that a call locks exactly one key.
//! - [`run()`] runs a Redis command given as one line.
//! - [`eventually()`] polls a condition.
//!
//! Nothing here runs on the runtime of the test, so a test may block, drop or pause its runtime.
//! Every process, server and proxy ends when its value is dropped. Every error is a panic, because
//! a test could not handle it.

mod certificates;
mod child;
mod clock;
mod cluster;
mod command;
mod command_log;
mod entry;
mod eventually;
mod install;
mod journal;
mod locking;
mod network;
mod port;
mod postgres;
mod proxy;
mod sentinels;
mod server;
mod spawn;
mod url;

pub use certificates::Certificates;
pub use child::Child;
pub use clock::Clock;
pub use cluster::Cluster;
pub use command::run;
pub use command_log::CommandLog;
pub use entry::Entry;
pub use eventually::eventually;
pub use install::{npm, pip};
pub use locking::{holding, locking, tick};
pub use network::{Network, Node};
pub use postgres::Postgres;
pub use proxy::{Mode, Proxy};
pub use sentinels::Sentinels;
pub use server::{Server, ServerBuilder};
pub use url::redlock_url;
