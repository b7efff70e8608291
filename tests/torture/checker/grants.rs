//! That fences grow from one grant of a lock to the next.

use std::collections::{BTreeMap, BTreeSet};

use super::{Kind, Rules, Violation};
use crate::history::{Entry, Event};

/// A grant that was asked for after another one was seen has the greater fence. Two that were asked
/// for at the same time have different ones. One that was asked for during a fault may be a grant of
/// a server that is out of office.
pub(super) fn check(history: &[Entry], rules: &Rules) -> Vec<Violation> {
    let mut faults = 0;
    let mut greatest = BTreeMap::new();
    let mut before = BTreeMap::new();
    let mut known = BTreeSet::new();
    let mut violations = Vec::new();
    for &Entry { at, ref event } in history {
        match *event {
            Event::Faulty { .. } => faults += 1,
            Event::Healed { .. } => faults -= 1,
            Event::Asked { attempt, key } => {
                let greatest = greatest.get(&key).copied().unwrap_or(0);
                let least = if rules.successors && faults > 0 { 0 } else { greatest };
                before.insert(attempt, least);
            }
            Event::Granted { attempt, key, fence, .. } => {
                let least = before.remove(&attempt).unwrap_or(0);
                if fence <= least {
                    let text =
                        format!("{attempt} got {fence} for lock {key} after {least} was granted");
                    violations.push(Violation { at, kind: Kind::Fence, text });
                } else if !known.insert((key, fence)) {
                    let text = format!("{attempt} got {fence} for lock {key} as another one did");
                    violations.push(Violation { at, kind: Kind::Fence, text });
                }
                let greatest = greatest.entry(key).or_insert(0);
                *greatest = fence.max(*greatest);
            }
            _ => {}
        }
    }
    violations
}
