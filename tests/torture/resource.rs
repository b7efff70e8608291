//! What the locks protect: a counter for each, which turns late clients away by their fences.
//!
//! No fault befalls it: it tells what a client did, and in which order.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::history::{Attempt, Event, Key, Log};

const SOCKET: &str = "resource.sock";

/// The side that keeps the counters, on threads of its own that end with the process.
#[derive(Debug)]
pub(crate) struct Resource(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    rows: Vec<Row>,
    log: Log,
}

/// One counter.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    /// The greatest fence that was accepted.
    fence: u64,
    count: u64,
    /// How often it was read or written.
    accesses: u64,
}

/// What a client asks: the value, or to replace it. The answer is the value, or none to a client
/// that is late.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) attempt: Attempt,
    pub(crate) key: Key,
    pub(crate) fence: u64,
    pub(crate) write: Option<u64>,
}

impl Resource {
    /// `keys` counters, to be reached by a socket in `dir`.
    pub(crate) fn start(dir: &Path, keys: usize) -> Self {
        let (rows, log) = (vec![Row::default(); keys], Log::create(dir, "resource"));
        let state = Arc::new(Mutex::new(State { rows, log }));
        let listener = UnixListener::bind(dir.join(SOCKET)).expect("the folder is new");
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self(state)
    }

    /// How often each counter was read or written so far.
    pub(crate) fn accesses(&self) -> Vec<u64> {
        lock(&self.0).rows.iter().map(|row| row.accesses).collect()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no panic under the lock")
}

/// Answers one client until it is gone.
fn serve(stream: &UnixStream, state: &Mutex<State>) {
    let requests = BufReader::new(stream).split(b'\n').map_while(Result::ok);
    for request in requests.map_while(|line| serde_json::from_slice::<Request>(&line).ok()) {
        let answer = serde_json::to_string(&lock(state).decide(request)).expect("it is a number");
        if writeln!(&mut &*stream, "{answer}").is_err() {
            return; // it was killed, with its request made
        }
    }
}

impl State {
    /// Compares and writes in one step, and notes it in the order of these steps.
    fn decide(&mut self, request: Request) -> Option<u64> {
        let Request { attempt, key, fence, write } = request;
        let row = &mut self.rows[key];
        let accepted = fence >= row.fence;
        if accepted {
            row.fence = fence;
            row.count = write.unwrap_or(row.count);
            row.accesses += 1;
        }
        self.log.note(Event::Accessed { attempt, key, fence, write, accepted });
        accepted.then_some(self.rows[key].count)
    }
}

/// The side of a client.
#[derive(Debug)]
pub(crate) struct Access(BufReader<UnixStream>);

impl Access {
    /// A connection to the resource whose socket is in `dir`.
    pub(crate) fn open(dir: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(dir.join(SOCKET)).expect("the resource listens")))
    }

    /// Asks, and blocks until the answer is there, which is at once.
    pub(crate) fn ask(&mut self, request: &Request) -> Option<u64> {
        let mut line = serde_json::to_string(request).expect("a request is JSON");
        line.push('\n');
        self.0.get_mut().write_all(line.as_bytes()).expect("the resource reads");
        line.clear();
        self.0.read_line(&mut line).expect("the resource answers");
        serde_json::from_str(&line).expect("the answer is a number")
    }
}
