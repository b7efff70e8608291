//! Checks that fences grow from one grant of a lock to the next.

use std::collections::{BTreeMap, BTreeSet};

use super::{Kind, Rules, Violation};
use crate::history::{Entry, Event};

/// Finds grants with a fence that is not higher than those granted before their request, and equal
/// fences of concurrent requests. With failovers, an old master may serve a request during a fault,
/// with a lower fence.
pub(super) fn check(history: &[Entry], rules: &Rules) -> Vec<Violation> {
    let mut faults = 0;
    let mut highest = BTreeMap::new();
    let mut bounds = BTreeMap::new();
    let mut known = BTreeSet::new();
    let mut violations = Vec::new();
    for &Entry { at, ref event } in history {
        match *event {
            Event::Faulty { .. } => faults += 1,
            Event::Healed { .. } => faults -= 1,
            Event::Asked { attempt, key } => {
                let highest = highest.get(&key).copied().unwrap_or(0);
                let bound = if rules.failovers && faults > 0 { 0 } else { highest };
                bounds.insert(attempt, bound);
            }
            Event::Granted { attempt, key, fence, .. } => {
                let bound = bounds.remove(&attempt).unwrap_or(0);
                if fence <= bound {
                    let text = format!(
                        "{attempt} got fence {fence} of lock {key} after {bound} was granted"
                    );
                    violations.push(Violation { at, kind: Kind::Fence, text });
                } else if !known.insert((key, fence)) {
                    let text =
                        format!("{attempt} got fence {fence} of lock {key} after another attempt");
                    violations.push(Violation { at, kind: Kind::Fence, text });
                }
                let highest = highest.entry(key).or_insert(0);
                *highest = fence.max(*highest);
            }
            _ => {}
        }
    }
    violations
}
