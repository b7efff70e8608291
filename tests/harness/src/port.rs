//! Ports that nobody uses.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;

/// Below the ports that systems give to outgoing connections.
///
/// One of those could be taken while its server is being restarted, even by a client that connects
/// to the very port and so, for TCP, to itself. A cluster's bus, 10,000 above, stays below as well.
const PORTS: Range<u16> = 10_000..20_000;

/// An address where nobody listens, for the moment.
pub(crate) fn free() -> SocketAddr {
    listen().local_addr().expect("a listener has an address")
}

/// A listener on a random free port of the loopback address.
pub(crate) fn listen() -> TcpListener {
    (0..100)
        .find_map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, any())).ok())
        .expect("one of 100 random ports is free")
}

/// A random port, which somebody may use.
pub(crate) fn any() -> u16 {
    random(PORTS)
}

pub(crate) fn random(range: Range<u16>) -> u16 {
    let [low, high, ..] = RandomState::new().build_hasher().finish().to_ne_bytes();
    range.start + u16::from_ne_bytes([low, high]) % (range.end - range.start)
}
