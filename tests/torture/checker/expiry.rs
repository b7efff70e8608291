//! Checks that no holder's deadline is later than the expiry of the key on the server.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Hold, Kind, Violation};
use crate::history::{Entry, Event, Key};

/// Allows for the server's milliseconds. Deadlines precede the expiry by much more than this.
const SLACK: Duration = Duration::from_millis(5);

/// Finds holds whose deadline is later than the expiry of the key, or whose key is gone: another
/// client could have been granted the lock meanwhile, even if none was.
pub(super) fn check(history: &[Entry], holds: &[Hold]) -> Vec<Violation> {
    // A reply is compared with the deadline that was known when its request was sent.
    let mut events: Vec<&Entry> = history.iter().collect();
    events.sort_by_key(|entry| match entry.event {
        Event::Seen { sent, .. } => sent,
        _ => entry.at,
    });
    let mut holds = holds.iter();
    let mut current: BTreeMap<Key, (&Hold, Duration)> = BTreeMap::new();
    let mut violations = Vec::new();
    for &&Entry { at, ref event } in &events {
        match *event {
            Event::Granted { key, deadline, .. } => {
                let hold = holds.next().expect("a grant without a hold");
                current.insert(key, (hold, deadline));
            }
            Event::Holds { attempt, deadline } => {
                let mut holders = current.values_mut();
                if let Some((_, known)) = holders.find(|(hold, _)| hold.attempt == attempt) {
                    *known = deadline.max(*known);
                }
            }
            Event::Seen { key, ref holder, .. } => {
                let left = holder.as_ref().map_or(Some(Duration::ZERO), |holder| holder.left);
                let Some((&(hold, deadline), left)) = current.get(&key).zip(left) else { continue };
                let excess = deadline.saturating_sub(at + left);
                if hold.until > at && excess > SLACK {
                    let attempt = hold.attempt;
                    let text = format!("{attempt} relies on lock {key} for {excess:.1?} too long");
                    violations.push(Violation { at, kind: Kind::Overlap, text });
                    current.remove(&key);
                }
            }
            _ => {}
        }
    }
    violations
}
