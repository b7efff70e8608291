//! Locks in a majority of several independent servers.

mod contenders;
mod faults;
pub(crate) mod group;
mod identity;
mod input;
mod leases;
mod votes;
