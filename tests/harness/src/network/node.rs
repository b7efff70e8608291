//! A machine of a network.

use std::net::Ipv4Addr;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use tokio::runtime;
use tokio::sync::oneshot;

use super::namespace::{Namespace, persistent};
use super::{Hub, TEST};

/// A place for servers and clients, with an address of its own.
///
/// Clones are the same place.
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
        for switch in ["inside", "outside"] {
            let port = format!("{switch}{number}");
            node.hub.switches.ip(&format!(
                "link add name {port} type veth peer name {switch} netns {id}\n\
                 link set dev {port} master {switch}\n\
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
            persistent("inside"),
            persistent("outside"),
        ));
        node
    }

    /// Its address, for the other nodes and for the test.
    #[must_use]
    pub fn ip(&self) -> Ipv4Addr {
        self.hub.ip(self.number)
    }

    /// Cuts it off from the other nodes and from the test.
    ///
    /// Nobody is told: what is sent is lost, and connections stay open. Those that run on it still
    /// reach each other.
    ///
    /// # Panics
    ///
    /// If the system does not allow it.
    pub fn cut(&self) {
        self.cut_from_nodes();
        self.plug("outside", "nomaster");
    }

    /// Cuts it off from the other nodes; the test is on both sides.
    ///
    /// # Panics
    ///
    /// If the system does not allow it.
    pub fn cut_from_nodes(&self) {
        self.plug("inside", "nomaster");
    }

    /// Undoes all cuts.
    ///
    /// # Panics
    ///
    /// If the system does not allow it.
    pub fn heal(&self) {
        self.plug("inside", "master inside");
        self.plug("outside", "master outside");
    }

    /// `command`, to be run on this node.
    #[must_use]
    pub fn command(&self, command: &Command) -> Command {
        self.namespace.command(command)
    }

    /// Does `work` on this node, on a thread with a runtime of its own.
    ///
    /// Its connections, and those of the threads that it starts, are made from here.
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
            Err(_) => resume_unwind(thread.join().expect_err("it has ended without a result")),
        }
    }

    /// Plugs its cable into a switch, or pulls it there: with a cable that is down, the node would
    /// notice, and take some time to notice that it is up again.
    fn plug(&self, cable: &str, to: &str) {
        self.hub.switches.ip(&format!("link set dev {cable}{} {to}", self.number));
    }
}

/// Moves this thread into a namespace.
#[cfg(target_os = "linux")]
fn enter(namespace: &Namespace) {
    use std::fs::File;
    use std::os::fd::AsFd;

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

    let file = File::open(namespace.path()).expect("the namespace is there");
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("who may make a namespace may enter it");
}

#[cfg(not(target_os = "linux"))]
fn enter(_: &Namespace) {
    unreachable!("no network can be made here");
}
