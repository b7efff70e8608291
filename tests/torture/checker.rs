//! Says of a history whether the locks kept their promises. Pure: it knows nothing but the history.

mod accesses;
mod backing;
mod claims;
mod grants;
mod keys;
mod outages;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use crate::history::{Entry, Event};
use claims::Claim;

/// What a run promised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) ttl: Duration,
    /// Whether locks could be forgotten, by a server without a memory or in a failover. Two claims may
    /// overlap then, until the first holder hears of it.
    pub(crate) amnesia: bool,
    /// Whether a server could go on for a moment after another one had taken over. Then the fences of
    /// its grants are smaller, and the resource turns their holders away.
    pub(crate) successors: bool,
}

/// What became of the promises.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) faults: usize,
    pub(crate) grants: usize,
    /// Claims that overlap another one, or the time in which the server may grant another one;
    /// tolerated or not.
    pub(crate) overlaps: usize,
    /// Accesses to the resource that came too late and were refused.
    pub(crate) refused: usize,
    /// The longest time that a lock was wanted, free and granted to nobody, while the server was well.
    pub(crate) longest_outage: Duration,
    pub(crate) violations: Vec<Violation>,
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) at: Duration,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// Which promise it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Two clients held a lock at the same time, or could have.
    Overlap,
    /// A fence was given twice, or smaller than an earlier one, or accepted out of order.
    Fence,
    /// A write that was accepted is not in the counter.
    LostUpdate,
    /// A key outlived its holder, or would outlive everybody.
    Orphan,
    /// A lock was granted to nobody for too long.
    Outage,
}

/// Goes over a history, which is in order of time.
pub(crate) fn check(history: &[Entry], rules: &Rules) -> Verdict {
    let claims = claims::all(history);
    let (mut overlaps, mut violations) = claims::overlaps(&claims, rules);
    if !rules.amnesia {
        let found = backing::check(history, &claims);
        overlaps += found.len();
        violations.extend(found);
    }
    violations.extend(grants::check(history, rules));
    let (refused, found) = accesses::check(history, &claims);
    violations.extend(found);
    violations.extend(keys::check(history, &claims, rules.ttl));
    let (longest_outage, found) = outages::check(history, &claims, rules);
    violations.extend(found);
    violations.sort_by_key(|violation| violation.at);

    let faults = history.iter().filter(|entry| matches!(entry.event, Event::Faulty { .. })).count();
    Verdict { faults, grants: claims.len(), overlaps, refused, longest_outage, violations }
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
