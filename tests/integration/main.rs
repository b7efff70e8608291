//! Behaviour of the lock on real servers.

mod many;
