//! Checks whether the locks kept their promises: a pure function of the history.

mod accesses;
mod expiry;
mod fences;
mod holds;
mod orphans;
mod outages;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use crate::history::{Entry, Event};
use holds::Hold;

/// The promises of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) ttl: Duration,
    /// Whether a restart or a failover may lose locks. Two holds may then overlap until the first
    /// holder learns of the loss.
    pub(crate) loses_locks: bool,
    /// Whether an old master may go on for a moment after a failover. Its grants then have lower
    /// fences, and the resource refuses their holders.
    pub(crate) failovers: bool,
}

/// The result of a check.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) faults: usize,
    pub(crate) grants: usize,
    /// Holds that overlap another one, or a time in which the server may grant the lock again;
    /// tolerated ones included.
    pub(crate) overlaps: usize,
    /// Late accesses that the resource refused.
    pub(crate) refused: usize,
    /// The longest time without a grant of a lock that was requested and free on healthy servers.
    pub(crate) longest_outage: Duration,
    pub(crate) violations: Vec<Violation>,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) at: Duration,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// The promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Two clients held the same lock at once, or could have.
    Overlap,
    /// A fence was granted twice, was lower than an earlier one, or was accepted out of order.
    Fence,
    /// An accepted write is missing from the counter.
    LostUpdate,
    /// A key outlived its holder, or never expires.
    Orphan,
    /// A lock was not granted for too long.
    Outage,
}

/// Checks a history, which is sorted by time.
pub(crate) fn check(history: &[Entry], rules: &Rules) -> Verdict {
    let holds = holds::all(history);
    let (mut overlaps, mut violations) = holds::overlaps(&holds, rules);
    if !rules.loses_locks {
        let found = expiry::check(history, &holds);
        overlaps += found.len();
        violations.extend(found);
    }
    violations.extend(fences::check(history, rules));
    let (refused, found) = accesses::check(history, &holds);
    violations.extend(found);
    violations.extend(orphans::check(history, &holds, rules.ttl));
    let (longest_outage, found) = outages::check(history, &holds, rules);
    violations.extend(found);
    violations.sort_by_key(|violation| violation.at);

    let faults = history.iter().filter(|entry| matches!(entry.event, Event::Faulty { .. })).count();
    Verdict { faults, grants: holds.len(), overlaps, refused, longest_outage, violations }
}

impl Verdict {
    fn count(&self, kind: Kind) -> usize {
        self.violations.iter().filter(|violation| violation.kind == kind).count()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, grants, overlaps, refused, longest_outage, .. } = self;
        write!(
            f,
            "{faults} faults, {grants} grants, {overlaps} overlaps, {} fenced violations, \
             {refused} late writes refused, {} lost updates, {} orphans, longest outage {:.1} s",
            self.count(Kind::Fence),
            self.count(Kind::LostUpdate),
            self.count(Kind::Orphan),
            longest_outage.as_secs_f64(),
        )
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3?}: {:?}: {}", self.at, self.kind, self.text)
    }
}
