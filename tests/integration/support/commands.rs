//! The commands of a lock in the log of a server.

use std::collections::VecDeque;
use std::time::Duration;

use harness::{CommandLog, Entry};

/// Returns whether a client runs a script.
pub(crate) fn is_script(entry: &Entry) -> bool {
    entry.is("EVALSHA") || entry.is("EVAL")
}

/// Returns the keys and the arguments of a script that a client runs on keys.
fn script(entry: &Entry) -> Option<(&[String], &[String])> {
    let count = entry.args.get(2).filter(|_| is_script(entry))?.parse().ok()?;
    entry.args[3..].split_at_checked(count).filter(|(keys, _)| !keys.is_empty())
}

/// Returns whether a client requests `key`, for the first time or again.
///
/// The server may not know the script yet, and then grants nothing.
pub(crate) fn is_acquire(entry: &Entry, key: &str) -> bool {
    script(entry).is_some_and(|(keys, args)| keys[0] == key && args.len() == 6)
}

/// Returns whether a client releases `key`, or leaves its queue.
pub(crate) fn is_release(entry: &Entry, key: &str) -> bool {
    script(entry).is_some_and(|(keys, args)| keys[0] == key && args.len() == 4)
}

/// Returns whether a client renews a lock for `ttl` milliseconds.
pub(crate) fn is_renewal(entry: &Entry, ttl: &str) -> bool {
    script(entry).is_some_and(|(keys, args)| keys.len() == 1 && args[1] == ttl)
}

/// Returns whether a script grants `key`.
pub(crate) fn is_grant(entry: &Entry, key: &str) -> bool {
    entry.from_script() && entry.is("SET") && entry.args[1] == key
}

/// Returns the tokens in the requests for `key`, in order and one per attempt.
pub(crate) fn tokens(log: &CommandLog, key: &str) -> Vec<String> {
    let entries = log.entries();
    let requests = entries.iter().filter(|entry| is_acquire(entry, key));
    let mut tokens: Vec<String> = requests.map(|entry| entry.args[7].clone()).collect();
    tokens.dedup();
    tokens
}

/// Returns the grants of `key`, after checking that each went to the first waiter, or to a client
/// that does not wait while the queue was empty.
pub(crate) fn grants_in_order(log: &CommandLog, key: &str) -> Vec<Entry> {
    let mut waiting: VecDeque<String> = VecDeque::new();
    let mut grants: Vec<Entry> = Vec::new();
    for entry in log.entries() {
        if is_acquire(&entry, key) {
            let [token, _, pause, ..] = &entry.args[7..] else { unreachable!() };
            let holds = grants.last().is_some_and(|grant| grant.has(token));
            if !(pause.is_empty() || holds || waiting.contains(token)) {
                waiting.push_back(token.clone());
            }
        } else if is_release(&entry, key) {
            waiting.retain(|token| !entry.has(token));
        } else if is_grant(&entry, key) && grants.last().is_none_or(|last| last.args != entry.args)
        {
            let first = waiting.pop_front();
            assert!(first.is_none_or(|first| entry.has(&first)), "{entry:?} before {waiting:#?}");
            grants.push(entry);
        }
    }
    grants
}

/// Returns the times from each grant to the release by its holder, sorted by length.
pub(crate) fn hold_times(log: &CommandLog, grants: &[Entry]) -> Vec<Duration> {
    let entries = log.entries();
    let hold = |grant: &Entry| {
        let [key, token] = [&grant.args[1], &grant.args[2]];
        let end = entries.iter().find(|entry| is_release(entry, key) && entry.has(token))?;
        Some(end.at.saturating_sub(grant.at))
    };
    let mut holds: Vec<_> = grants.iter().filter_map(hold).collect();
    holds.sort_unstable();
    holds
}
