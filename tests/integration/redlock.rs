//! Locks in a majority of independent servers.

mod contenders;
mod faults;
mod identity;
mod input;
mod leases;
mod votes;
