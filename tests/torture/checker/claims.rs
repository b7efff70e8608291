//! Who claims to hold which lock from when to when, and that no two claims overlap.

use std::cmp::{max_by_key, min};
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Kind, Rules, Violation};
use crate::history::{Attempt, Entry, Event, Key};

/// The time in which a client holds a lock by its own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) attempt: Attempt,
    pub(super) key: Key,
    pub(super) fence: u64,
    pub(super) from: Duration,
    /// The last deadline that is known, or the end that the holder has seen before.
    pub(super) until: Duration,
}

/// All claims, in order of their begins.
pub(super) fn all(history: &[Entry]) -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    let mut open = BTreeMap::new();
    for &Entry { at: from, ref event } in history {
        match *event {
            Event::Granted { attempt, key, fence, deadline: until } => {
                open.insert(attempt, claims.len());
                claims.push(Claim { attempt, key, fence, from, until });
            }
            Event::Holds { attempt, deadline } => {
                // One that looks at a lease which is over has not got it back.
                if let Some(&place) = open.get(&attempt).filter(|_| deadline > from) {
                    claims[place].until = claims[place].until.max(deadline);
                }
            }
            Event::Ended { attempt } => {
                if let Some(place) = open.remove(&attempt) {
                    claims[place].until = claims[place].until.min(from);
                }
            }
            _ => {}
        }
    }
    claims
}

/// How many claims overlap an earlier one, and those of them that may not.
pub(super) fn overlaps(claims: &[Claim], rules: &Rules) -> (usize, Vec<Violation>) {
    let mut longest: BTreeMap<Key, Claim> = BTreeMap::new();
    let (mut count, mut violations) = (0, Vec::new());
    for &claim in claims {
        let before = longest.get(&claim.key).copied();
        if let Some(before) = before.filter(|before| claim.from < before.until) {
            count += 1;
            // Who has lost the lock without a notice hears of it when he renews, and stops before
            // his deadline in any case.
            let overlap = min(before.until, claim.until).saturating_sub(claim.from);
            if !rules.amnesia || overlap > rules.ttl {
                let Claim { attempt, key, from: at, .. } = claim;
                let other = before.attempt;
                let text = format!("{attempt} and {other} both hold lock {key} for {overlap:.1?}");
                violations.push(Violation { at, kind: Kind::Overlap, text });
            }
        }
        let longer = before.map_or(claim, |before| max_by_key(before, claim, |claim| claim.until));
        longest.insert(claim.key, longer);
    }
    (count, violations)
}
