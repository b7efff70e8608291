//! A network of the test's own, which can be partitioned.

mod namespace;
mod node;

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::port::random;
use namespace::{Namespace, persistent, try_ip};

pub use node::Node;

/// Networks of the addresses that are reserved for tests of networks: nobody else has them.
const NETWORKS: u16 = 512;
/// The number of the test among the nodes.
const TEST: u8 = 254;

/// Machines without their hardware: each [`Node`] has an address of its own, and cables that can be
/// cut. All is gone when the network and its nodes are dropped.
///
/// The nodes are connected by one switch, and with the test by another one.
#[derive(Debug)]
pub struct Network {
    hub: Arc<Hub>,
    nodes: AtomicU8,
}

/// The two switches, and the cable to the test.
#[derive(Debug)]
struct Hub {
    switches: Namespace,
    number: u16,
}

impl Network {
    /// A network without nodes; none where this process may not make one, after it has said why.
    ///
    /// # Panics
    ///
    /// If the system has no room for one.
    pub async fn start() -> Option<Self> {
        if let Err(why) = allowed() {
            eprintln!("skipped: no network can be made (it takes Linux, `ip` and root): {why}");
            return None;
        }
        let switches = Namespace::new().await;
        switches.ip("link add name inside type bridge\nlink set dev inside up");
        switches.ip("link add name outside type bridge\nlink set dev outside up");
        let number = (0..100)
            .map(|_| random(0..NETWORKS))
            .find(|&number| {
                let id = switches.id();
                let cable =
                    format!("link add name {} type veth peer name test netns {id}", test(number));
                match try_ip(None, &cable) {
                    Ok(()) => true,
                    // It belongs to another network.
                    Err(error) if error.contains("File exists") => false,
                    Err(error) => panic!("{cable}: {error}"),
                }
            })
            .expect("one of 100 random networks is free");
        let hub = Hub { switches, number };
        hub.switches.ip("link set dev test master outside\nlink set dev test up");
        let (test, addr) = (test(number), hub.ip(TEST));
        let persistent = persistent(&test);
        let script = format!("addr add {addr}/24 dev {test}\nlink set dev {test} up\n{persistent}");
        try_ip(None, &script).expect("the test can be connected");
        Some(Self { hub: Arc::new(hub), nodes: AtomicU8::new(0) })
    }

    /// A further node, where nothing runs yet.
    ///
    /// # Panics
    ///
    /// If the system has no room for one.
    pub async fn node(&self) -> Node {
        let number = self.nodes.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(number < TEST, "there are no addresses left");
        Node::new(Arc::clone(&self.hub), number).await
    }
}

impl Hub {
    fn ip(&self, number: u8) -> Ipv4Addr {
        let [high, low] = self.number.to_be_bytes();
        Ipv4Addr::new(198, 18 + high, low, number)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // At once; by itself, it goes some time after its other end.
        let _ = try_ip(None, &format!("link del dev {}", test(self.number)));
    }
}

/// The name of the cable between the test and a network, whose number nobody else has therefore.
fn test(number: u16) -> String {
    format!("lock{number}")
}

/// Whether this process may make what a network is made of, or why not.
fn allowed() -> Result<(), String> {
    let mut trial = Command::new("unshare");
    trial.args(["--net", "ip", "link", "add", "type", "veth"]);
    let output = trial.output().map_err(|error| format!("unshare: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
}

#[cfg(test)]
mod tests;
