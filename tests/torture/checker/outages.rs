//! That locks are granted again soon after all is well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Claim, Kind, Rules, Violation};
use crate::history::{Attempt, Entry, Event, Key};

/// More than any outage should take.
const LIMIT: Duration = Duration::from_secs(10);
/// More than another server should need to take over, which is part of an outage then.
const SUCCESSION: Duration = Duration::from_secs(5);

/// What is known of one lock.
#[derive(Debug, Default)]
struct Lock {
    asking: BTreeSet<Attempt>,
    /// Since when somebody has wanted it, and perhaps given up, without a grant.
    wanted: Option<Duration>,
    /// When the last claim ended.
    free: Duration,
}

/// What was found so far.
#[derive(Debug)]
struct Outages {
    limit: Duration,
    longest: Duration,
    violations: Vec<Violation>,
}

/// The longest time for which a lock was wanted and free, and the server well, without a grant; and
/// all such times that are too long.
pub(super) fn check(
    history: &[Entry],
    claims: &[Claim],
    rules: &Rules,
) -> (Duration, Vec<Violation>) {
    let limit = if rules.successors { LIMIT + SUCCESSION } else { LIMIT };
    let mut outages = Outages { limit, longest: Duration::ZERO, violations: Vec::new() };
    let mut locks: BTreeMap<Key, Lock> = BTreeMap::new();
    let mut faults = BTreeSet::new();
    // Since when the server has been well, if it is.
    let mut well = Some(Duration::ZERO);
    let mut claims = claims.iter();
    for &Entry { at, ref event } in history {
        match *event {
            Event::Faulty { fault, of_server: true, .. } => {
                faults.insert(fault);
                well = None;
            }
            Event::Healed { fault } if faults.remove(&fault) => {
                well = faults.is_empty().then_some(at);
            }
            Event::Asked { attempt, key } => {
                // Who was killed asks no more.
                let Attempt(client, life, _) = attempt;
                for lock in locks.values_mut() {
                    lock.asking.retain(|other| other.0 != client || other.1 == life);
                }
                let lock = locks.entry(key).or_default();
                lock.asking.insert(attempt);
                lock.wanted.get_or_insert(at);
            }
            Event::Returned { attempt, .. } => {
                for lock in locks.values_mut() {
                    lock.asking.remove(&attempt);
                }
            }
            Event::Granted { attempt, key, .. } => {
                let lock = locks.entry(key).or_default();
                outages.note(key, lock, well, at);
                lock.asking.remove(&attempt);
                lock.wanted = (!lock.asking.is_empty()).then_some(at);
                let claim = claims.next().expect("each grant begins a claim");
                lock.free = lock.free.max(claim.until);
            }
            Event::Stopped => {
                for (&key, lock) in &locks {
                    outages.note(key, lock, well, at);
                }
                break;
            }
            _ => {}
        }
    }
    (outages.longest, outages.violations)
}

impl Outages {
    /// A lock is granted, or should have been.
    fn note(&mut self, key: Key, lock: &Lock, well: Option<Duration>, at: Duration) {
        let Some((wanted, well)) = lock.wanted.zip(well) else { return };
        let outage = at.saturating_sub(wanted.max(lock.free).max(well));
        self.longest = self.longest.max(outage);
        if outage > self.limit {
            let text = format!("lock {key} was granted to nobody for {outage:.1?}");
            self.violations.push(Violation { at, kind: Kind::Outage, text });
        }
    }
}
