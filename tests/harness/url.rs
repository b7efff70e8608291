//! URLs of servers.

use std::net::SocketAddr;

/// The URL of the server at `addr` for a user and a password, both as a URL spells them.
pub(crate) fn url(scheme: &str, addr: SocketAddr, login: Option<(&str, &str)>) -> String {
    match login {
        Some((user, password)) => format!("{scheme}://{user}:{password}@{addr}"),
        None => format!("{scheme}://{addr}"),
    }
}
