//! A node of a network.

use std::net::Ipv4Addr;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use tokio::runtime;
use tokio::sync::oneshot;

use super::namespace::{Namespace, retry_discovery};
use super::{Hub, TEST};

/// A network namespace for servers and clients, with its own address.
///
/// Clones share the same namespace.
#[derive(Debug, Clone)]
pub struct Node {
    hub: Arc<Hub>,
    number: u8,
    namespace: Arc<Namespace>,
}

impl Node {
    pub(super) async fn new(hub: Arc<Hub>, number: u8) -> Self {
        let namespace = Arc::new(Namespace::new().await);
        let node = Self { hub, number, namespace };
        let id = node.namespace.id();
        for bridge in ["inside", "outside"] {
            let port = format!("{bridge}{number}");
            node.hub.bridges.ip(&format!(
                "link add name {port} type veth peer name {bridge} netns {id}\n\
                 link set dev {port} master {bridge}\n\
                 link set dev {port} up",
            ));
        }
        let (own, test) = (node.ip(), node.hub.ip(TEST));
        node.namespace.ip(&format!(
            "link set dev lo up\n\
             link set dev inside up\n\
             link set dev outside up\n\
             addr add {own}/24 dev inside\n\
             route add {test} dev outside src {own}\n\
             {}\n\
             {}",
            retry_discovery("inside"),
            retry_discovery("outside"),
        ));
        node
    }

    /// Returns its address, which the other nodes and the test use.
    #[must_use]
    pub fn ip(&self) -> Ipv4Addr {
        self.hub.ip(self.number)
    }

    /// Cuts the node off from the other nodes and from the test.
    ///
    /// Packets are lost silently and connections stay open. Processes on the node still reach each
    /// other.
    ///
    /// # Panics
    ///
    /// If the links cannot be changed.
    pub fn cut(&self) {
        self.cut_from_nodes();
        self.plug("outside", "nomaster");
    }

    /// Cuts the node off from the other nodes; the test still reaches both sides.
    ///
    /// # Panics
    ///
    /// If the links cannot be changed.
    pub fn cut_from_nodes(&self) {
        self.plug("inside", "nomaster");
    }

    /// Restores all links.
    ///
    /// # Panics
    ///
    /// If the links cannot be changed.
    pub fn heal(&self) {
        self.plug("inside", "master inside");
        self.plug("outside", "master outside");
    }

    /// Wraps `command` so that it runs on this node.
    #[must_use]
    pub fn command(&self, command: &Command) -> Command {
        self.namespace.command(command)
    }

    /// Runs `work` on this node, on a thread with its own runtime.
    ///
    /// Connections of this thread, and of threads that it starts, come from this node.
    ///
    /// # Panics
    ///
    /// If `work` does.
    pub async fn run<F, T>(&self, work: impl FnOnce() -> F + Send + 'static) -> T
    where
        F: Future<Output = T>,
        T: Send + 'static,
    {
        let namespace = Arc::clone(&self.namespace);
        let (done, result) = oneshot::channel();
        let thread = thread::spawn(move || {
            enter(&namespace);
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            let result = runtime.expect("a runtime can be built").block_on(async { work().await });
            let _ = done.send(result);
        });
        match result.await {
            Ok(result) => result,
            Err(_) => resume_unwind(thread.join().expect_err("the thread panicked")),
        }
    }

    /// Attaches a link to a bridge or detaches it there. The node would notice a link that is down,
    /// and would need some time to notice that it is up again.
    fn plug(&self, link: &str, to: &str) {
        self.hub.bridges.ip(&format!("link set dev {link}{} {to}", self.number));
    }
}

/// Moves the current thread into a namespace.
#[cfg(target_os = "linux")]
fn enter(namespace: &Namespace) {
    use std::fs::File;
    use std::os::fd::AsFd;

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

    let file = File::open(namespace.path()).expect("the namespace exists");
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("a process that creates a namespace may enter it");
}

#[cfg(not(target_os = "linux"))]
fn enter(_: &Namespace) {
    unreachable!("networks exist on Linux only");
}
