//! That the resource was written to by one holder after the other, and kept what it was told.

use std::collections::{BTreeMap, BTreeSet};

use super::{Claim, Kind, Violation};
use crate::history::{Attempt, Entry, Event, Key};

/// One counter, as the accepted accesses make it.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    last: Option<(u64, Attempt)>,
    count: u64,
}

/// How many accesses were refused, and what is wrong with those that were not.
pub(super) fn check(history: &[Entry], claims: &[Claim]) -> (usize, Vec<Violation>) {
    let granted: BTreeSet<(Attempt, Key, u64)> =
        claims.iter().map(|claim| (claim.attempt, claim.key, claim.fence)).collect();
    let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
    let mut written = BTreeSet::new();
    let mut refused = 0;
    let mut violations = Vec::new();
    for &Entry { at, ref event } in history {
        let mut violation = |kind, text| violations.push(Violation { at, kind, text });
        match *event {
            Event::Accessed { accepted: false, .. } => refused += 1,
            Event::Accessed { attempt, key, fence, write, .. } => {
                let row = rows.entry(key).or_default();
                if !granted.contains(&(attempt, key, fence)) {
                    let text =
                        format!("{attempt} used {fence} for lock {key}, which it was not given");
                    violation(Kind::Fence, text);
                } else if let Some((last, owner)) = row.last
                    && (fence < last || fence == last && attempt != owner)
                {
                    let text =
                        format!("{attempt} used {fence} for lock {key} after {owner} used {last}");
                    violation(Kind::Fence, text);
                }
                row.last = Some((fence, attempt));
                if let Some(value) = write {
                    if value != row.count + 1 {
                        let count = row.count;
                        let text =
                            format!("{attempt} replaced {count} by {value} under lock {key}");
                        violation(Kind::LostUpdate, text);
                    }
                    row.count = value;
                    written.insert((attempt, key, value));
                }
            }
            Event::Confirmed { attempt, key, value }
                if !written.contains(&(attempt, key, value)) =>
            {
                let text = format!("{attempt} was told that {value} is written under lock {key}");
                violation(Kind::LostUpdate, text);
            }
            _ => {}
        }
    }
    (refused, violations)
}
