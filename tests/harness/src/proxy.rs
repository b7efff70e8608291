//! A stretch of network between a client and a server, at the test's command.

mod closing;
mod pump;
mod relay;
mod triggers;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::port;
use crate::url::url;
use relay::{Order, Request, Shared, serve};

const SENT_LIMIT: Duration = Duration::from_secs(10);

/// A TCP relay that a test can make slow, deaf or mute.
///
/// It behaves as TCP does: what arrives is in order and without gaps. A connection that has lost
/// something therefore delivers nothing after it, in that direction.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    orders: Option<UnboundedSender<Request>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What a [`Proxy`] does with the bytes of one direction.
///
/// It is applied when bytes are due to be delivered: those that are held or late follow each new
/// mode, too. The end of a connection is treated as its last byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Deliver at once.
    #[default]
    Pass,
    /// Deliver this long after they came.
    Delay(Duration),
    /// Keep them until the next mode: a network that is away for a while.
    Hold,
    /// Swallow them, the connections staying open: a network that forgot about them.
    ///
    /// The next mode cuts the connections that have lost something by then.
    Lose,
}

impl Proxy {
    /// A relay to `target` that passes everything; nobody has to listen there yet.
    ///
    /// # Panics
    ///
    /// If the system has no port or thread to give.
    #[must_use]
    pub fn start(target: SocketAddr) -> Self {
        let listener = port::listen();
        let addr = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared::new(target));
        let (orders, receiver) = unbounded_channel();
        let work = serve(listener, Arc::clone(&shared), receiver);
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        let thread = thread::spawn(move || runtime.block_on(work));
        Self { addr, shared, orders: Some(orders), thread: Some(thread) }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL to connect to.
    ///
    /// It has no path: `format!("{url}/3")` is the URL of database 3.
    #[must_use]
    pub fn url(&self) -> String {
        url("redis", self.addr, None)
    }

    /// The URL with credentials.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        url("redis", self.addr, Some((user, password)))
    }

    /// Sets what happens to what clients send.
    pub fn to_server(&self, mode: Mode) {
        self.shared.to_server.send_replace(mode);
    }

    /// Sets what happens to what the server sends.
    pub fn to_client(&self, mode: Mode) {
        self.shared.to_client.send_replace(mode);
    }

    /// Sets both directions.
    pub fn both_ways(&self, mode: Mode) {
        self.to_server(mode);
        self.to_client(mode);
    }

    /// Lets the next command that contains `pattern` through and loses its reply.
    ///
    /// The connection stays open and mute: whatever the server sends once the command was seen is
    /// lost. Only that connection is concerned, until [`cut`](Self::cut), or any mode that is set
    /// with [`to_client`](Self::to_client), ends it. Each further call is for one more command.
    ///
    /// # Panics
    ///
    /// If `pattern` is empty or longer than 256 bytes.
    pub fn lose_reply_to(&self, pattern: impl AsRef<[u8]>) {
        self.shared.triggers.lose_reply_to(pattern.as_ref());
    }

    /// Resolves when a client has sent `pattern` after this call, whatever becomes of it then.
    ///
    /// Awaiting it later misses nothing. Bytes count when they reach the proxy: with
    /// [`Mode::Hold`] the server has not seen them.
    ///
    /// # Panics
    ///
    /// If `pattern` is empty or longer than 256 bytes, or when it is not sent within 10 s.
    pub fn until_sent<P: AsRef<[u8]>>(&self, pattern: P) -> impl Future<Output = ()> + use<P> {
        let pattern = pattern.as_ref();
        let sent = self.shared.triggers.tell_of(pattern);
        let missing =
            format!("nobody has sent {:?} within {SENT_LIMIT:?}", String::from_utf8_lossy(pattern));
        async move {
            let in_time = matches!(timeout(SENT_LIMIT, sent).await, Ok(Ok(())));
            assert!(in_time, "{missing}");
        }
    }

    /// Closes all connections; when this returns, both sides have been told.
    ///
    /// # Panics
    ///
    /// If the proxy's thread has panicked.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Leads new connections to another server, as a name does that has another address now.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Refuses connections from now on, without touching those that are open.
    ///
    /// # Panics
    ///
    /// If the proxy's thread has panicked.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    /// Accepts connections again after [`refuse`](Self::refuse).
    ///
    /// # Panics
    ///
    /// If somebody else has taken the port meanwhile.
    pub fn accept(&self) {
        self.order(Order::Accept);
    }

    /// How many connections have been accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many bytes clients have sent so far, delivered or not.
    #[must_use]
    pub fn sent_by_clients(&self) -> u64 {
        self.shared.sent_by_clients.load(Ordering::Relaxed)
    }

    /// How many bytes the server has sent so far, delivered or not.
    #[must_use]
    pub fn sent_by_server(&self) -> u64 {
        self.shared.sent_by_server.load(Ordering::Relaxed)
    }

    fn order(&self, order: Order) {
        let (done, wait) = mpsc::channel();
        let orders = self.orders.as_ref().expect("taken on drop only");
        let _ = orders.send((order, done));
        wait.recv().expect("the proxy's thread works on");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests;
