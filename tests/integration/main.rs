//! Behaviour of the lock on real servers.
