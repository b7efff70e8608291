//! Checks that no key outlives its holder by more than a ttl.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Hold, Kind, Violation};
use crate::history::{Entry, Event, Holder, Key};

/// Allows for clocks and for the latency of the server.
const SLACK: Duration = Duration::from_millis(100);

/// A series of observations in which a key has the same token.
#[derive(Debug, Clone)]
struct Sighting {
    token: String,
    /// When the first reply was received.
    from: Duration,
    /// When the last request was sent.
    until: Duration,
}

/// Finds keys without an expiry, keys that remain without a holder in times without faults, and
/// keys that remain after all clients have stopped.
pub(super) fn check(history: &[Entry], holds: &[Hold], ttl: Duration) -> Vec<Violation> {
    let mut sightings: BTreeMap<Key, Sighting> = BTreeMap::new();
    let (mut faults, mut over) = (0, false);
    let mut violations = Vec::new();
    for &Entry { at, ref event } in history {
        let mut orphan = |text| violations.push(Violation { at, kind: Kind::Orphan, text });
        match *event {
            Event::Faulty { .. } => faults += 1,
            // Delayed requests may arrive now and live for a ttl.
            Event::Healed { .. } => {
                faults -= 1;
                sightings.clear();
            }
            Event::Over => over = true,
            Event::Seen { key, holder: Some(ref holder), .. } if over => {
                orphan(format!(
                    "lock {key} has token {} after the end of all clients",
                    holder.token
                ));
            }
            Event::Seen { key, holder: Some(Holder { ref token, left: None }), .. } => {
                orphan(format!("lock {key} has token {token} without an expiry"));
            }
            Event::Seen { sent, key, holder: Some(ref holder) } if faults == 0 => {
                let new = Sighting { token: holder.token.clone(), from: at, until: sent };
                let sighting = sightings.entry(key).or_insert_with(|| new.clone());
                if sighting.token != new.token {
                    *sighting = new;
                }
                sighting.until = sent;
                let gap = longest_gap(sighting, holds.iter().filter(|hold| hold.key == key));
                if gap > ttl + SLACK {
                    orphan(format!(
                        "lock {key} has token {} without a holder for {gap:.1?}",
                        holder.token
                    ));
                    sightings.remove(&key);
                }
            }
            _ => {}
        }
    }
    violations
}

/// Returns the longest part of a sighting in which no client held the lock.
fn longest_gap<'a>(sighting: &Sighting, holds: impl Iterator<Item = &'a Hold>) -> Duration {
    let mut longest = Duration::ZERO;
    let mut end = sighting.from;
    for hold in holds.skip_while(|hold| hold.until < sighting.from) {
        if hold.from >= sighting.until {
            break;
        }
        longest = longest.max(hold.from.saturating_sub(end));
        end = end.max(hold.until);
    }
    longest.max(sighting.until.saturating_sub(end))
}
