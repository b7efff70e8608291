//! The holds of all clients, by their own accounts, of which no two may overlap.

use std::cmp::{max_by_key, min};
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Kind, Rules, Violation};
use crate::history::{Attempt, Entry, Event, Key};

/// The time in which a client believes that it holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) attempt: Attempt,
    pub(super) key: Key,
    pub(super) fence: u64,
    pub(super) from: Duration,
    /// The last known deadline, or the earlier end that the holder has recorded.
    pub(super) until: Duration,
}

/// Returns all holds, in order of their beginnings.
pub(super) fn all(history: &[Entry]) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    let mut open = BTreeMap::new();
    for &Entry { at: from, ref event } in history {
        match *event {
            Event::Granted { attempt, key, fence, deadline: until } => {
                open.insert(attempt, holds.len());
                holds.push(Hold { attempt, key, fence, from, until });
            }
            Event::Holds { attempt, deadline } => {
                // An expired deadline belongs to a lost lease and does not extend the hold.
                if let Some(&place) = open.get(&attempt).filter(|_| deadline > from) {
                    holds[place].until = holds[place].until.max(deadline);
                }
            }
            Event::Ended { attempt } => {
                if let Some(place) = open.remove(&attempt) {
                    holds[place].until = holds[place].until.min(from);
                }
            }
            _ => {}
        }
    }
    holds
}

/// Returns the number of holds that overlap an earlier one, and the violations among them.
pub(super) fn overlaps(holds: &[Hold], rules: &Rules) -> (usize, Vec<Violation>) {
    let mut longest: BTreeMap<Key, Hold> = BTreeMap::new();
    let (mut count, mut violations) = (0, Vec::new());
    for &hold in holds {
        let before = longest.get(&hold.key).copied();
        if let Some(before) = before.filter(|before| hold.from < before.until) {
            count += 1;
            // The holder of a lost lock learns of the loss from its next renewal, and stops at its
            // deadline in any case.
            let overlap = min(before.until, hold.until).saturating_sub(hold.from);
            if !rules.loses_locks || overlap > rules.ttl {
                let Hold { attempt, key, from: at, .. } = hold;
                let other = before.attempt;
                let text = format!("{attempt} and {other} both hold lock {key} for {overlap:.1?}");
                violations.push(Violation { at, kind: Kind::Overlap, text });
            }
        }
        let longer = before.map_or(hold, |before| max_by_key(before, hold, |hold| hold.until));
        longest.insert(hold.key, longer);
    }
    (count, violations)
}
