//! Checks that locks are granted again soon after the servers are healthy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Hold, Kind, Rules, Violation};
use crate::history::{Attempt, Entry, Event, Key};

/// Maximum length of an outage.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum length of a failover, which is then part of the outage.
const FAILOVER: Duration = Duration::from_secs(5);

/// The state of one lock.
#[derive(Debug, Default)]
struct Lock {
    requests: BTreeSet<Attempt>,
    /// The first request since the last grant, even if its client has given up.
    wanted: Option<Duration>,
    /// When the last hold ended.
    free: Duration,
}

/// The outages found so far.
#[derive(Debug)]
struct Outages {
    limit: Duration,
    longest: Duration,
    violations: Vec<Violation>,
}

/// Returns the longest outage, and those that are too long. An outage is the time without a grant
/// in which a lock is requested and free, and the servers are healthy.
pub(super) fn check(
    history: &[Entry],
    holds: &[Hold],
    rules: &Rules,
) -> (Duration, Vec<Violation>) {
    let limit = if rules.failovers { LIMIT + FAILOVER } else { LIMIT };
    let mut outages = Outages { limit, longest: Duration::ZERO, violations: Vec::new() };
    let mut locks: BTreeMap<Key, Lock> = BTreeMap::new();
    let mut faults = BTreeSet::new();
    // Since when the servers have been healthy, if they are.
    let mut healthy = Some(Duration::ZERO);
    let mut holds = holds.iter();
    for &Entry { at, ref event } in history {
        match *event {
            Event::Faulty { fault, of_server: true, .. } => {
                faults.insert(fault);
                healthy = None;
            }
            Event::Healed { fault } if faults.remove(&fault) => {
                healthy = faults.is_empty().then_some(at);
            }
            Event::Asked { attempt, key } => {
                // A killed client process no longer has requests.
                let Attempt(client, restarts, _) = attempt;
                for lock in locks.values_mut() {
                    lock.requests.retain(|other| other.0 != client || other.1 == restarts);
                }
                let lock = locks.entry(key).or_default();
                lock.requests.insert(attempt);
                lock.wanted.get_or_insert(at);
            }
            Event::Returned { attempt, .. } => {
                for lock in locks.values_mut() {
                    lock.requests.remove(&attempt);
                }
            }
            Event::Granted { attempt, key, .. } => {
                let lock = locks.entry(key).or_default();
                outages.record(key, lock, healthy, at);
                lock.requests.remove(&attempt);
                lock.wanted = (!lock.requests.is_empty()).then_some(at);
                let hold = holds.next().expect("a grant without a hold");
                lock.free = lock.free.max(hold.until);
            }
            Event::Stopped => {
                for (&key, lock) in &locks {
                    outages.record(key, lock, healthy, at);
                }
                break;
            }
            _ => {}
        }
    }
    (outages.longest, outages.violations)
}

impl Outages {
    /// Records the outage of a lock that ends now, by a grant or with the run.
    fn record(&mut self, key: Key, lock: &Lock, healthy: Option<Duration>, at: Duration) {
        let Some((wanted, healthy)) = lock.wanted.zip(healthy) else { return };
        let outage = at.saturating_sub(wanted.max(lock.free).max(healthy));
        self.longest = self.longest.max(outage);
        if outage > self.limit {
            let text = format!("lock {key} was not granted for {outage:.1?}");
            self.violations.push(Violation { at, kind: Kind::Outage, text });
        }
    }
}
