//! URLs of servers.

use std::net::SocketAddr;

/// The URL of the server at `addr` for a user and a password, both as a URL spells them.
pub(crate) fn url(scheme: &str, addr: SocketAddr, login: Option<(&str, &str)>) -> String {
    match login {
        Some((user, password)) => format!("{scheme}://{user}:{password}@{addr}"),
        None => format!("{scheme}://{addr}"),
    }
}

/// The URL of locks in these servers, which know nothing of each other.
#[must_use]
pub fn redlock_url(servers: impl IntoIterator<Item = SocketAddr>) -> String {
    let hosts: Vec<_> = servers.into_iter().map(|server| server.to_string()).collect();
    format!("redlock://{}", hosts.join(","))
}
