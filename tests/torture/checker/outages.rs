//! That locks are granted again soon after all is well.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Claim, Kind, Violation};
use crate::history::{Entry, Event, Key};

/// More than any outage should take.
const LIMIT: Duration = Duration::from_secs(10);

/// How the server fared, and since when.
#[derive(Debug, Clone, Copy)]
struct Health {
    since: Duration,
    faults: usize,
}

/// The longest time from when a lock was free, and the server well, to its next grant; and those
/// that are too long.
pub(super) fn check(history: &[Entry], claims: &[Claim]) -> (Duration, Vec<Violation>) {
    let mut outages = Outages::default();
    let begin = history.first().map_or(Duration::ZERO, |entry| entry.at);
    let mut server = Health { since: begin, faults: 0 };
    let mut of_server = Vec::new();
    let mut free: BTreeMap<Key, Duration> = BTreeMap::new();
    let mut claims = claims.iter();
    for &Entry { at, ref event } in history {
        match *event {
            Event::Faulty { fault, of_server: true, .. } => {
                of_server.push(fault);
                server.faults += 1;
            }
            Event::Healed { fault } if of_server.contains(&fault) => {
                server.faults -= 1;
                server.since = at;
            }
            Event::Asked { key, .. } => drop(free.entry(key).or_insert(at)),
            Event::Granted { .. } => {
                let claim = claims.next().expect("each grant begins a claim");
                let free = free.entry(claim.key).or_insert(begin);
                outages.note(claim.key, *free, at, server);
                *free = claim.until.max(*free);
            }
            Event::Stopped => {
                for (&key, &free) in &free {
                    outages.note(key, free, at, server);
                }
                break;
            }
            _ => {}
        }
    }
    (outages.longest, outages.violations)
}

#[derive(Debug, Default)]
struct Outages {
    longest: Duration,
    violations: Vec<Violation>,
}

impl Outages {
    /// A lock that was free since `free` is granted, or should be.
    fn note(&mut self, key: Key, free: Duration, at: Duration, server: Health) {
        if server.faults > 0 {
            return;
        }
        let outage = at.saturating_sub(free.max(server.since));
        self.longest = self.longest.max(outage);
        if outage > LIMIT {
            let text = format!("lock {key} was granted to nobody for {outage:.1?}");
            self.violations.push(Violation { at, kind: Kind::Outage, text });
        }
    }
}
