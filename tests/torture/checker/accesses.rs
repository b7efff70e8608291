//! Checks that holders access the resource one after the other, and that no write is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::{Hold, Kind, Violation};
use crate::history::{Attempt, Entry, Event, Key};

/// One counter, as reconstructed from the accepted accesses.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    last: Option<(u64, Attempt)>,
    value: u64,
}

/// Returns the number of refused accesses, and the violations among the accepted ones.
pub(super) fn check(history: &[Entry], holds: &[Hold]) -> (usize, Vec<Violation>) {
    let granted: BTreeSet<(Attempt, Key, u64)> =
        holds.iter().map(|hold| (hold.attempt, hold.key, hold.fence)).collect();
    let mut counters: BTreeMap<Key, Counter> = BTreeMap::new();
    let mut written = BTreeSet::new();
    let mut refused = 0;
    let mut violations = Vec::new();
    for &Entry { at, ref event } in history {
        let mut violation = |kind, text| violations.push(Violation { at, kind, text });
        match *event {
            Event::Accessed { accepted: false, .. } => refused += 1,
            Event::Accessed { attempt, key, fence, write, .. } => {
                let counter = counters.entry(key).or_default();
                if !granted.contains(&(attempt, key, fence)) {
                    let text =
                        format!("{attempt} used fence {fence} of lock {key} without a grant");
                    violation(Kind::Fence, text);
                } else if let Some((last, owner)) = counter.last
                    && (fence < last || fence == last && attempt != owner)
                {
                    let text = format!(
                        "{attempt} used fence {fence} of lock {key} after {owner} used {last}"
                    );
                    violation(Kind::Fence, text);
                }
                counter.last = Some((fence, attempt));
                if let Some(value) = write {
                    if value != counter.value + 1 {
                        let before = counter.value;
                        let text =
                            format!("{attempt} replaced {before} by {value} under lock {key}");
                        violation(Kind::LostUpdate, text);
                    }
                    counter.value = value;
                    written.insert((attempt, key, value));
                }
            }
            Event::Confirmed { attempt, key, value }
                if !written.contains(&(attempt, key, value)) =>
            {
                let text =
                    format!("{attempt} got a confirmation of lost write {value} under lock {key}");
                violation(Kind::LostUpdate, text);
            }
            _ => {}
        }
    }
    (refused, violations)
}
