//! Free ports.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;

/// Below the ephemeral ports of outgoing connections.
///
/// An ephemeral port could be taken while its server restarts, even by a client that connects to
/// that very port and so, in TCP, to itself. The bus of a cluster, 10,000 above, stays below them
/// too.
const PORTS: Range<u16> = 10_000..20_000;

/// Returns a loopback address with a port that is free at the moment.
pub(crate) fn free() -> SocketAddr {
    listen().local_addr().expect("a listener has an address")
}

/// Binds a listener to a random free port of the loopback address.
pub(crate) fn listen() -> TcpListener {
    (0..100)
        .find_map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, any())).ok())
        .expect("one of 100 random ports is free")
}

/// Returns a random port, free or not.
pub(crate) fn any() -> u16 {
    random(PORTS)
}

pub(crate) fn random(range: Range<u16>) -> u16 {
    let [low, high, ..] = RandomState::new().build_hasher().finish().to_ne_bytes();
    range.start + u16::from_ne_bytes([low, high]) % (range.end - range.start)
}
