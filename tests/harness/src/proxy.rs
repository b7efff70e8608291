//! A TCP proxy between a client and a server, controlled by the test.

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

/// A TCP relay that a test can slow down, block or cut.
///
/// As in TCP, bytes arrive in order and without gaps: a connection that has lost bytes delivers no
/// further ones in that direction.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    orders: Option<UnboundedSender<Request>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// How a [`Proxy`] treats the bytes of one direction.
///
/// The mode applies at the time of delivery: bytes that are held or delayed follow each new mode.
/// The end of a connection is treated as its last byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Deliver at once.
    #[default]
    Pass,
    /// Deliver this long after arrival.
    Delay(Duration),
    /// Hold bytes back until the next mode: a temporary network outage.
    Hold,
    /// Drop bytes and keep the connections open: a network that has lost their state.
    ///
    /// The next mode cuts the connections that have lost bytes by then.
    Lose,
}

impl Proxy {
    /// Starts a relay to `target` that passes everything; the target need not listen yet.
    ///
    /// # Panics
    ///
    /// If no port or thread is available.
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

    /// Returns the address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL to connect to.
    ///
    /// It has no path: `format!("{url}/3")` is the URL of database 3.
    #[must_use]
    pub fn url(&self) -> String {
        url("redis", self.addr, None)
    }

    /// Returns the URL with credentials.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        url("redis", self.addr, Some((user, password)))
    }

    /// Sets the mode of bytes from clients.
    pub fn to_server(&self, mode: Mode) {
        self.shared.to_server.send_replace(mode);
    }

    /// Sets the mode of bytes from the server.
    pub fn to_client(&self, mode: Mode) {
        self.shared.to_client.send_replace(mode);
    }

    /// Sets the mode of both directions.
    pub fn both_ways(&self, mode: Mode) {
        self.to_server(mode);
        self.to_client(mode);
    }

    /// Passes the next command that contains `pattern` and loses its reply.
    ///
    /// Its connection stays open, but everything that the server sends after that command is lost,
    /// until [`cut`](Self::cut) or the next call of [`to_client`](Self::to_client) ends the
    /// connection. Each call applies to one more command.
    ///
    /// # Panics
    ///
    /// If `pattern` is empty or longer than 256 bytes.
    pub fn lose_reply_to(&self, pattern: impl AsRef<[u8]>) {
        self.shared.triggers.lose_reply_to(pattern.as_ref());
    }

    /// Resolves when a client has sent `pattern` after this call, delivered or not.
    ///
    /// The future may be awaited later. Bytes count when they reach the proxy: with [`Mode::Hold`]
    /// the server has not received them.
    ///
    /// # Panics
    ///
    /// If `pattern` is empty or longer than 256 bytes, or is not sent within 10 s.
    pub fn until_sent<P: AsRef<[u8]>>(&self, pattern: P) -> impl Future<Output = ()> + use<P> {
        let pattern = pattern.as_ref();
        let sent = self.shared.triggers.notify_on(pattern);
        let missing = format!(
            "no client has sent {:?} within {SENT_LIMIT:?}",
            String::from_utf8_lossy(pattern)
        );
        async move {
            let in_time = matches!(timeout(SENT_LIMIT, sent).await, Ok(Ok(())));
            assert!(in_time, "{missing}");
        }
    }

    /// Closes all connections; both sides have been notified when this returns.
    ///
    /// # Panics
    ///
    /// If the proxy's thread has panicked.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Redirects new connections to another server, as a DNS name with a new address does.
    pub fn redirect_to(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Refuses new connections and keeps the open ones.
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
    /// If another process has taken the port meanwhile.
    pub fn accept(&self) {
        self.order(Order::Accept);
    }

    /// Returns the number of connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that clients have sent so far, delivered or not.
    #[must_use]
    pub fn sent_by_clients(&self) -> u64 {
        self.shared.sent_by_clients.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that the server has sent so far, delivered or not.
    #[must_use]
    pub fn sent_by_server(&self) -> u64 {
        self.shared.sent_by_server.load(Ordering::Relaxed)
    }

    fn order(&self, order: Order) {
        let (done, wait) = mpsc::channel();
        let orders = self.orders.as_ref().expect("only drop takes the sender");
        let _ = orders.send((order, done));
        wait.recv().expect("the proxy's thread is running");
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
