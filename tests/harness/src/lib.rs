//! Real servers for tests, and the means to watch them and to get in their way.
//!
//! - [`Server`] is a `redis-server` process of the test's own.
//! - [`Sentinels`] is a master with replicas and sentinels, [`Cluster`] a Redis Cluster.
//! - [`Network`] has servers run on nodes of their own, and parts them.
//! - [`Postgres`] is a PostgreSQL of the test's own, for what a lock protects.
//! - [`Proxy`] stands between a client and a server and delays, holds, loses or cuts.
//! - [`CommandLog`] records what a server was asked to do.
//! - [`Child`] is any other process, such as a second holder of a lock.
//! - [`Certificates`] are for servers that speak TLS.
//! - [`Clock`] is the wall clock of a process, and jumps.
//! - [`pip()`] and [`npm()`] install programs and libraries of others.
//! - [`locking()`] and [`holding()`] check that a call locks exactly one key.
//! - [`run()`] runs a command as people write it.
//! - [`eventually()`] waits for what has no event.
//!
//! Nothing of it runs on the runtime of the test, so that a test may block, drop or pause that.
//! Everything ends when it is dropped. Whatever goes wrong is a panic: there is nothing else that
//! a test could do about it.

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
