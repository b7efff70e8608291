//! What the command log and the keys say of a lock.

use std::collections::VecDeque;
use std::process::Command;
use std::time::Duration;

use harness::{Child, CommandLog, Entry, eventually};
use redis::aio::MultiplexedConnection;
use redis::{AsyncTypedCommands as _, Script};

use crate::support::kit::SOON;

/// How long the cases allow for what is done at once.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(1);

/// The one key that stays, however many locks there have been.
pub(crate) const FENCE: &str = "lock-runtime:fence";

/// Starts the program `holder`, whose options stand in `holder/main.rs`.
pub(crate) fn holder(url: &str, key: &str, options: &[String]) -> Child {
    Child::spawn(Command::new(env!("CARGO_BIN_EXE_holder")).args([url, key]).args(options))
}

/// Returns when `key` does not exist.
pub(crate) async fn absent(redis: &mut MultiplexedConnection, key: &str, limit: Duration) {
    let what = format!("{key} is gone");
    eventually(&what, limit, async || !redis.exists(key).await.unwrap()).await;
}

/// How many keys there are. Two kinds do not count: the counter of the fences, which stays, and for
/// a minute the note that clients that do not queue were seen.
pub(crate) async fn keys(redis: &mut MultiplexedConnection) -> usize {
    let script = Script::new(
        "local count = 0
         for _, key in ipairs(redis.call('KEYS', '*')) do
           local note = string.find(key, ':peers$') and redis.call('HLEN', key) == 1
             and redis.call('HEXISTS', key, 'others') == 1 and redis.call('PTTL', key) >= 0
           if key ~= ARGV[1] and not note then count = count + 1 end
         end
         return count",
    );
    script.arg(FENCE).invoke_async(redis).await.unwrap()
}

/// Whether a client asks for a script.
pub(crate) fn is_script(entry: &Entry) -> bool {
    entry.is("EVALSHA") || entry.is("EVAL")
}

/// The keys and the arguments of a script on keys that a client asks for.
fn script(entry: &Entry) -> Option<(&[String], &[String])> {
    let count = entry.args.get(2).filter(|_| is_script(entry))?.parse().ok()?;
    entry.args[3..].split_at_checked(count).filter(|(keys, _)| !keys.is_empty())
}

/// Whether a client asks to hold `key`: for the first time or again. The server may not know the
/// script yet, and grant nothing.
pub(crate) fn is_acquire(entry: &Entry, key: &str) -> bool {
    script(entry).is_some_and(|(keys, args)| keys[0] == key && args.len() == 6)
}

/// Whether a client asks to give back `key`, or to leave its queue.
pub(crate) fn is_release(entry: &Entry, key: &str) -> bool {
    script(entry).is_some_and(|(keys, args)| keys[0] == key && args.len() == 4)
}

/// Whether a client asks for the script that lets a lock live for `ttl` milliseconds.
pub(crate) fn is_renewal(entry: &Entry, ttl: &str) -> bool {
    script(entry).is_some_and(|(keys, args)| keys.len() == 1 && args[1] == ttl)
}

/// Whether the server gives `key` to somebody.
pub(crate) fn is_grant(entry: &Entry, key: &str) -> bool {
    entry.from_script() && entry.is("SET") && entry.args[1] == key
}

/// The tokens with which clients asked for `key`, in order: one of each attempt.
pub(crate) fn tokens(log: &CommandLog, key: &str) -> Vec<String> {
    let entries = log.entries();
    let asked = entries.iter().filter(|entry| is_acquire(entry, key));
    let mut tokens: Vec<String> = asked.map(|entry| entry.args[7].clone()).collect();
    tokens.dedup();
    tokens
}

/// Returns when so many wait for `key`.
pub(crate) async fn queued(redis: &mut MultiplexedConnection, key: &str, count: usize) {
    let (what, queue) = (format!("{count} wait for {key}"), format!("{{{key}}}:waiters"));
    eventually(&what, SOON * 4, async || redis.zcard(&queue).await.unwrap() == count).await;
}

/// The tokens that wait for `key`, first come first.
pub(crate) async fn waiters(redis: &mut MultiplexedConnection, key: &str) -> Vec<String> {
    redis.zrange(format!("{{{key}}}:waiters"), 0, -1).await.unwrap()
}

/// The grants of `key`, each of which went to the one who had waited longest, or to somebody who does
/// not wait while nobody else did.
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

/// How long it took from each of the grants to the release by its holder, in order of length.
pub(crate) fn holds(log: &CommandLog, grants: &[Entry]) -> Vec<Duration> {
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
