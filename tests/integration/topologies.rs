//! What every topology has: users, passwords and TLS.

mod permissions;
mod tls;
