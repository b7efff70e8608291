//! The history: one line of JSON per event, timed by the monotonic clock of the host.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One event and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The time of the event, by [`now`].
    pub(crate) at: Duration,
    pub(crate) event: Event,
}

/// The number of a lock and of the counter that it protects.
pub(crate) type Key = usize;

/// One acquire: the client, its number of restarts, and the number of the operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Attempt(pub(crate) usize, pub(crate) u32, pub(crate) u32);

/// An event, recorded where it is known first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A client is about to request a lock.
    Asked { attempt: Attempt, key: Key },
    /// The client holds the lock until the deadline, which a renewal may move.
    Granted { attempt: Attempt, key: Key, fence: u64, deadline: Duration },
    /// The client has checked its current deadline.
    Holds { attempt: Attempt, deadline: Duration },
    /// The client releases the lock, or has learned that it has lost it.
    Ended { attempt: Attempt },
    /// The operation has returned, with this outcome.
    Returned { attempt: Attempt, outcome: String },
    /// The client has received the confirmation of its write.
    Confirmed { attempt: Attempt, key: Key, value: u64 },
    /// The resource has accepted a read or, with a value, a write, or refused it for its old fence.
    Accessed { attempt: Attempt, key: Key, fence: u64, write: Option<u64>, accepted: bool },
    /// A fault begins. With `of_server`, locks may not be grantable until it is healed.
    Faulty { fault: usize, what: String, of_server: bool },
    /// The fault has ended.
    Healed { fault: usize },
    /// The authoritative server, or a majority of the servers, has named the holder of a lock in
    /// reply to a request sent at `sent`.
    Seen { sent: Duration, key: Key, holder: Option<Holder> },
    /// The clients are told to stop, so that grants may cease.
    Stopped,
    /// The clients have stopped, and any lease that they held has expired.
    Over,
}

/// The holder of a lock, as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) token: String,
    /// The remaining ttl of the key, or `None` without an expiry.
    pub(crate) left: Option<Duration>,
}

/// Returns the time since the host was started.
pub(crate) fn now() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().expect("the monotonic clock is negative")
}

/// The log file of one process or of one of its parts.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    /// Creates a new file in `dir`.
    pub(crate) fn create(dir: &Path, name: &str) -> Self {
        let path = dir.join(name).with_extension(EXTENSION);
        let file = File::options().create_new(true).append(true).open(path);
        Self(file.expect("failed to create a log file"))
    }

    /// Records an event of this instant.
    pub(crate) fn record(&self, event: Event) {
        self.record_at(now(), event);
    }

    /// Records an event of the instant `at` in a single write, so that it survives a kill.
    pub(crate) fn record_at(&self, at: Duration, event: Event) {
        let mut line = serde_json::to_vec(&Entry { at, event }).expect("an event is valid JSON");
        line.push(b'\n');
        (&self.0).write_all(&line).expect("failed to write to a log file");
    }
}

/// Reads the events of all files in `dir`, in order. The last line of a killed process may be torn.
pub(crate) fn read(dir: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    for file in fs::read_dir(dir).expect("failed to read the folder of the history") {
        let path = file.expect("failed to read the folder of the history").path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            let text = fs::read_to_string(&path).expect("failed to read a log file");
            let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            entries.extend(lines.map(|line| -> Entry {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
            }));
        }
    }
    // A stable sort keeps the order of events that the resource records at the same instant.
    entries.sort_by_key(|entry| entry.at);
    entries
}

const EXTENSION: &str = "jsonl";

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(client, restarts, number) = self;
        write!(f, "{client}.{restarts}.{number}")
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
