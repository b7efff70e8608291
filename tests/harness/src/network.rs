//! A network for one test, which can be partitioned.

mod namespace;
mod node;

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::port::random;
use namespace::{Namespace, retry_discovery, try_ip};

pub use node::Node;

/// The networks of 198.18.0.0/15, which is reserved for tests: no other network uses them.
const NETWORKS: u16 = 512;
/// The host number of the test, which no node has.
const TEST: u8 = 254;

/// A set of network namespaces: each [`Node`] has its own address, and links that can be cut.
/// Deleted when the network and its nodes are dropped.
///
/// One bridge connects the nodes with each other, a second one connects them with the test.
#[derive(Debug)]
pub struct Network {
    hub: Arc<Hub>,
    nodes: AtomicU8,
}

/// The two bridges and the link to the test.
#[derive(Debug)]
struct Hub {
    bridges: Namespace,
    number: u16,
}

impl Network {
    /// Creates a network without nodes. Returns `None` and prints the reason where this process
    /// lacks the permission.
    ///
    /// # Panics
    ///
    /// If the network cannot be created.
    pub async fn start() -> Option<Self> {
        if let Err(why) = allowed() {
            eprintln!("skipped: cannot create a network (this needs Linux, `ip` and root): {why}");
            return None;
        }
        let bridges = Namespace::new().await;
        bridges.ip("link add name inside type bridge\nlink set dev inside up");
        bridges.ip("link add name outside type bridge\nlink set dev outside up");
        let number = (0..100)
            .map(|_| random(0..NETWORKS))
            .find(|&number| {
                let id = bridges.id();
                let link =
                    format!("link add name {} type veth peer name test netns {id}", test(number));
                match try_ip(None, &link) {
                    Ok(()) => true,
                    // The name belongs to another network.
                    Err(error) if error.contains("File exists") => false,
                    Err(error) => panic!("{link}: {error}"),
                }
            })
            .expect("one of 100 random networks is free");
        let hub = Hub { bridges, number };
        hub.bridges.ip("link set dev test master outside\nlink set dev test up");
        let (test, addr) = (test(number), hub.ip(TEST));
        let retry_discovery = retry_discovery(&test);
        let script =
            format!("addr add {addr}/24 dev {test}\nlink set dev {test} up\n{retry_discovery}");
        try_ip(None, &script).expect("the test can be linked");
        Some(Self { hub: Arc::new(hub), nodes: AtomicU8::new(0) })
    }

    /// Adds a node, on which nothing runs yet.
    ///
    /// # Panics
    ///
    /// If the node cannot be created.
    pub async fn node(&self) -> Node {
        let number = self.nodes.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(number < TEST, "the network has no free addresses");
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
        // Without this, the link would disappear some time after its other end.
        let _ = try_ip(None, &format!("link del dev {}", test(self.number)));
    }
}

/// Returns the name of the link to the test, which reserves the number of the network.
fn test(number: u16) -> String {
    format!("lock{number}")
}

/// Checks whether this process may create namespaces and links.
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
