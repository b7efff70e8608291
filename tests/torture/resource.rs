//! The protected resource: one counter per lock, which refuses late clients by their fences.
//!
//! No fault affects it, so that it records what the clients did, and in which order.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::history::{Attempt, Event, Key, Log};

const SOCKET: &str = "resource.sock";

/// The server with the counters, on threads that end with the process.
#[derive(Debug)]
pub(crate) struct Resource(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    counters: Vec<Counter>,
    log: Log,
}

/// One counter.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    /// The highest accepted fence.
    fence: u64,
    value: u64,
    /// The number of accepted reads and writes.
    accesses: u64,
}

/// A read of a counter or, with a value, a write. The reply is the value, or none if the fence is
/// too old.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) attempt: Attempt,
    pub(crate) key: Key,
    pub(crate) fence: u64,
    pub(crate) write: Option<u64>,
}

impl Resource {
    /// Serves `keys` counters on a socket in `dir`.
    pub(crate) fn start(dir: &Path, keys: usize) -> Self {
        let (counters, log) = (vec![Counter::default(); keys], Log::create(dir, "resource"));
        let state = Arc::new(Mutex::new(State { counters, log }));
        let listener = UnixListener::bind(dir.join(SOCKET))
            .expect("failed to bind the socket of the resource");
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self(state)
    }

    /// Returns the number of accepted reads and writes of each counter.
    pub(crate) fn accesses(&self) -> Vec<u64> {
        lock(&self.0).counters.iter().map(|counter| counter.accesses).collect()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("a thread panicked while it held the mutex")
}

/// Serves one client until it disconnects.
fn serve(stream: &UnixStream, state: &Mutex<State>) {
    let requests = BufReader::new(stream).split(b'\n').map_while(Result::ok);
    for request in requests.map_while(|line| serde_json::from_slice::<Request>(&line).ok()) {
        let reply =
            serde_json::to_string(&lock(state).apply(request)).expect("a number is valid JSON");
        if writeln!(&mut &*stream, "{reply}").is_err() {
            return; // the client was killed after its request
        }
    }
}

impl State {
    /// Checks the fence, reads or writes, and records it in one step, so that the history has the
    /// order of the accesses.
    fn apply(&mut self, request: Request) -> Option<u64> {
        let Request { attempt, key, fence, write } = request;
        let counter = &mut self.counters[key];
        let accepted = fence >= counter.fence;
        if accepted {
            counter.fence = fence;
            counter.value = write.unwrap_or(counter.value);
            counter.accesses += 1;
        }
        self.log.record(Event::Accessed { attempt, key, fence, write, accepted });
        accepted.then_some(self.counters[key].value)
    }
}

/// The connection of a client to the resource.
#[derive(Debug)]
pub(crate) struct Connection(BufReader<UnixStream>);

impl Connection {
    /// Connects to the resource whose socket is in `dir`.
    pub(crate) fn open(dir: &Path) -> Self {
        let stream = UnixStream::connect(dir.join(SOCKET));
        Self(BufReader::new(stream.expect("failed to connect to the resource")))
    }

    /// Sends a request and blocks until the reply, which arrives at once.
    pub(crate) fn send(&mut self, request: &Request) -> Option<u64> {
        let mut line = serde_json::to_string(request).expect("a request is valid JSON");
        line.push('\n');
        self.0
            .get_mut()
            .write_all(line.as_bytes())
            .expect("failed to send a request to the resource");
        line.clear();
        self.0.read_line(&mut line).expect("failed to receive the reply of the resource");
        serde_json::from_str(&line).expect("the reply of the resource is not a number")
    }
}
