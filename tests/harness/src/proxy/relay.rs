//! The thread of a proxy: its listener and its connections.

use std::future::pending;
use std::io;
use std::net::{self, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::{select, try_join};

use super::Mode;
use super::closing::Closing;
use super::pump::pump;
use super::triggers::{Recent, Triggers};

/// The state that the test and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) target: Mutex<SocketAddr>,
    pub(super) to_server: watch::Sender<Mode>,
    pub(super) to_client: watch::Sender<Mode>,
    pub(super) triggers: Triggers,
    pub(super) connections: AtomicU64,
    pub(super) sent_by_clients: AtomicU64,
    pub(super) sent_by_server: AtomicU64,
}

/// A command of the test, and the sender that reports its completion.
pub(super) type Request = (Order, mpsc::Sender<()>);

#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Cut,
    Refuse,
    Accept,
}

impl Shared {
    pub(super) fn new(target: SocketAddr) -> Self {
        Self {
            target: Mutex::new(target),
            to_server: watch::Sender::default(),
            to_client: watch::Sender::default(),
            triggers: Triggers::default(),
            connections: AtomicU64::new(0),
            sent_by_clients: AtomicU64::new(0),
            sent_by_server: AtomicU64::new(0),
        }
    }

    fn target(&self) -> SocketAddr {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Relays connections until the proxy is dropped.
pub(super) async fn serve(
    listener: net::TcpListener,
    shared: Arc<Shared>,
    mut requests: UnboundedReceiver<Request>,
) -> io::Result<()> {
    let addr = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let mut listener = Some(Closing(TcpListener::from_std(listener)?));
    let mut relays = JoinSet::new();
    loop {
        select! {
            request = requests.recv() => {
                let Some((order, done)) = request else { return Ok(()) };
                match order {
                    Order::Cut => relays.shutdown().await,
                    Order::Refuse => listener = None,
                    Order::Accept if listener.is_some() => {}
                    Order::Accept => listener = Some(Closing(TcpListener::bind(addr).await?)),
                }
                let _ = done.send(());
            }
            Ok(client) = accept(listener.as_ref()) => {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                relays.spawn(relay(client, Arc::clone(&shared)));
            }
            Some(_) = relays.join_next() => {}
        }
    }
}

async fn accept(listener: Option<&Closing<TcpListener>>) -> io::Result<TcpStream> {
    match listener {
        Some(Closing(listener)) => Ok(listener.accept().await?.0),
        None => pending().await,
    }
}

/// Relays one connection until both directions have ended or it has lost bytes.
async fn relay(client: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    let mut client = Closing(client);
    let mut server = Closing(TcpStream::connect(shared.target()).await?);
    client.0.set_nodelay(true)?;
    server.0.set_nodelay(true)?;
    let (from_client, to_client) = client.0.split();
    let (from_server, to_server) = server.0.split();

    let mute = AtomicBool::new(false);
    let mut recent = Recent::default();
    let sent_up = |bytes: &[u8]| {
        count(&shared.sent_by_clients, bytes);
        if shared.triggers.fire(&mut recent, bytes) {
            mute.store(true, Ordering::Relaxed);
        }
        false
    };
    let sent_down = |bytes: &[u8]| {
        count(&shared.sent_by_server, bytes);
        mute.load(Ordering::Relaxed)
    };
    let (up_mode, down_mode) = (shared.to_server.subscribe(), shared.to_client.subscribe());
    let up = pump(from_client, to_server, up_mode, sent_up);
    let down = pump(from_server, to_client, down_mode, sent_down);
    // A connection that has lost bytes is closed like any other: by dropping it.
    let _ = try_join!(up, down);
    Ok(())
}

fn count(total: &AtomicU64, bytes: &[u8]) {
    total.fetch_add(bytes.len() as u64, Ordering::Relaxed);
}
