//! Locks in a majority of several independent servers.

mod contenders;
mod faults;
mod identity;
mod input;
mod leases;
mod votes;
