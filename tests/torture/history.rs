//! What happened: one line of JSON for each event, on the one clock of the host.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// When, as [`now`] tells it.
    pub(crate) at: Duration,
    pub(crate) event: Event,
}

/// The number of a lock, and of the counter that it protects.
pub(crate) type Key = usize;

/// One request for a lock: of which client process, of which of its lives, and which one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Attempt(pub(crate) usize, pub(crate) u32, pub(crate) u32);

/// What happens, each noted where it is known first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A client is about to ask for a lock.
    Asked { attempt: Attempt, key: Key },
    /// It holds the lock, until the deadline unless that is moved.
    Granted { attempt: Attempt, key: Key, fence: u64, deadline: Duration },
    /// Its deadline, looked at again.
    Holds { attempt: Attempt, deadline: Duration },
    /// It gives the lock back, or has learned that it has lost it.
    Ended { attempt: Attempt },
    /// How its call came to an end.
    Returned { attempt: Attempt, outcome: String },
    /// It was told that its write was accepted.
    Confirmed { attempt: Attempt, key: Key, value: u64 },
    /// The resource was read or, with a value, written; or not, because the fence was too old.
    Accessed { attempt: Attempt, key: Key, fence: u64, write: Option<u64>, accepted: bool },
    /// A fault begins; of the server, if nothing may be granted while it lasts.
    Faulty { fault: usize, what: String, of_server: bool },
    /// It is over.
    Healed { fault: usize },
    /// The server that has the say, or most of the servers, say to a question of the instant `sent` who
    /// holds a lock and for how long.
    Seen { sent: Duration, key: Key, holder: Option<Holder> },
    /// The clients are told to end; grants may end as well.
    Stopped,
    /// The clients have ended, and what they may have held has expired.
    Over,
}

/// The holder of a lock, as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) token: String,
    /// What is left of the key's life; none for one without an end.
    pub(crate) left: Option<Duration>,
}

/// The time since the host was started.
pub(crate) fn now() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().expect("the clock began at zero")
}

/// The file of one process, or of one part of it.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    /// A new file in `dir`.
    pub(crate) fn create(dir: &Path, name: &str) -> Self {
        let path = dir.join(name).with_extension(EXTENSION);
        let file = File::options().create_new(true).append(true).open(path);
        Self(file.expect("the folder can be written to"))
    }

    /// Writes what happens now.
    pub(crate) fn note(&self, event: Event) {
        self.note_at(now(), event);
    }

    /// Writes what happened at `at`, in one piece: a process that is killed next has said it.
    pub(crate) fn note_at(&self, at: Duration, event: Event) {
        let mut line = serde_json::to_vec(&Entry { at, event }).expect("an event is JSON");
        line.push(b'\n');
        (&self.0).write_all(&line).expect("a file can be written to");
    }
}

/// All events of the files in `dir`, in order. The last line of a killed process may be torn.
pub(crate) fn read(dir: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    for file in fs::read_dir(dir).expect("the folder can be read") {
        let path = file.expect("the folder can be read").path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            let text = fs::read_to_string(&path).expect("the file can be read");
            let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            entries.extend(lines.map(|line| -> Entry {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
            }));
        }
    }
    // The resource may note two events of the same instant, and their order is kept.
    entries.sort_by_key(|entry| entry.at);
    entries
}

const EXTENSION: &str = "jsonl";

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(client, life, number) = self;
        write!(f, "{client}.{life}.{number}")
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
