//! That no key outlives its holder by more than a ttl.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Claim, Kind, Violation};
use crate::history::{Entry, Event, Holder, Key};

/// What the clocks and the way to the server may add to an orphan's age.
const SLACK: Duration = Duration::from_millis(100);

/// A key that has held the same token since the server was first asked about it.
#[derive(Debug, Clone)]
struct Sighting {
    token: String,
    /// When the first answer had come.
    from: Duration,
    /// When the last question was sent.
    until: Duration,
}

/// Keys without an expiry; keys that stay while nobody claims the lock, in times without faults; and
/// what is left when all clients have ended.
pub(super) fn check(history: &[Entry], claims: &[Claim], ttl: Duration) -> Vec<Violation> {
    let mut sightings: BTreeMap<Key, Sighting> = BTreeMap::new();
    let (mut faults, mut over) = (0, false);
    let mut violations = Vec::new();
    for &Entry { at, ref event } in history {
        let mut orphan = |text| violations.push(Violation { at, kind: Kind::Orphan, text });
        match *event {
            Event::Faulty { .. } => faults += 1,
            // What was on its way until then arrives now, and lives for a ttl.
            Event::Healed { .. } => {
                faults -= 1;
                sightings.clear();
            }
            Event::Over => over = true,
            Event::Seen { key, holder: Some(ref holder), .. } if over => {
                orphan(format!("lock {key} is left to {} when all have ended", holder.token));
            }
            Event::Seen { key, holder: Some(Holder { ref token, left: None }), .. } => {
                orphan(format!("lock {key} is left to {token} for ever"));
            }
            Event::Seen { sent, key, holder: Some(ref holder) } if faults == 0 => {
                let new = Sighting { token: holder.token.clone(), from: at, until: sent };
                let sighting = sightings.entry(key).or_insert_with(|| new.clone());
                if sighting.token != new.token {
                    *sighting = new;
                }
                sighting.until = sent;
                let alone = longest_gap(sighting, claims.iter().filter(|claim| claim.key == key));
                if alone > ttl + SLACK {
                    orphan(format!("lock {key} is left to {} for {alone:.1?}", holder.token));
                    sightings.remove(&key);
                }
            }
            _ => {}
        }
    }
    violations
}

/// The longest part of a sighting in which nobody claimed to hold the lock.
fn longest_gap<'a>(sighting: &Sighting, claims: impl Iterator<Item = &'a Claim>) -> Duration {
    let mut longest = Duration::ZERO;
    let mut end = sighting.from;
    for claim in claims.skip_while(|claim| claim.until < sighting.from) {
        if claim.from >= sighting.until {
            break;
        }
        longest = longest.max(claim.from.saturating_sub(end));
        end = end.max(claim.until);
    }
    longest.max(sighting.until.saturating_sub(end))
}
