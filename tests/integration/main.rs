//! Behaviour of the lock on real servers.

mod acquire;
mod cancel;
mod classic;
mod holding;
mod kit;
mod logged;
mod loss;
mod many;
mod orphans;
mod ownership;
mod release;
mod renewal;
mod trace;
