//! URLs of servers.

use std::net::SocketAddr;

/// Returns the URL of the server at `addr`, with a percent-encoded user and password.
pub(crate) fn url(scheme: &str, addr: SocketAddr, login: Option<(&str, &str)>) -> String {
    match login {
        Some((user, password)) => format!("{scheme}://{user}:{password}@{addr}"),
        None => format!("{scheme}://{addr}"),
    }
}

/// Returns the Redlock URL of independent servers.
#[must_use]
pub fn redlock_url(servers: impl IntoIterator<Item = SocketAddr>) -> String {
    let hosts: Vec<_> = servers.into_iter().map(|server| server.to_string()).collect();
    format!("redlock://{}", hosts.join(","))
}
