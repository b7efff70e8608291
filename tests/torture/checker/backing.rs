//! That no holder trusts in a lock for longer than the server keeps it for him.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Claim, Kind, Violation};
use crate::history::{Entry, Event, Key};

/// The server counts in milliseconds. Deadlines are earlier than the expiry by much more than this.
const SLACK: Duration = Duration::from_millis(5);

/// Claims whose deadline is after the expiry of the key, or that have no key at all. Somebody else
/// could be granted the lock while they last, even if nobody was.
pub(super) fn check(history: &[Entry], claims: &[Claim]) -> Vec<Violation> {
    // What was known when the server was asked, not what was learned before it answered.
    let mut events: Vec<&Entry> = history.iter().collect();
    events.sort_by_key(|entry| match entry.event {
        Event::Seen { sent, .. } => sent,
        _ => entry.at,
    });
    let mut claims = claims.iter();
    let mut held: BTreeMap<Key, (&Claim, Duration)> = BTreeMap::new();
    let mut violations = Vec::new();
    for &&Entry { at, ref event } in &events {
        match *event {
            Event::Granted { key, deadline, .. } => {
                let claim = claims.next().expect("each grant begins a claim");
                held.insert(key, (claim, deadline));
            }
            Event::Holds { attempt, deadline } => {
                let mut holders = held.values_mut();
                if let Some((_, known)) = holders.find(|(claim, _)| claim.attempt == attempt) {
                    *known = deadline.max(*known);
                }
            }
            Event::Seen { key, ref holder, .. } => {
                let left = holder.as_ref().map_or(Some(Duration::ZERO), |holder| holder.left);
                let Some((&(claim, deadline), left)) = held.get(&key).zip(left) else { continue };
                let excess = deadline.saturating_sub(at + left);
                if claim.until > at && excess > SLACK {
                    let attempt = claim.attempt;
                    let text = format!("{attempt} trusts in lock {key} for {excess:.1?} too long");
                    violations.push(Violation { at, kind: Kind::Overlap, text });
                    held.remove(&key);
                }
            }
            _ => {}
        }
    }
    violations
}
