//! [`Keys`]: the keys of one lock.

use std::borrow::Cow;

use super::topology::slot::{self, Slot};
use crate::key::Key;

/// The fence counter: one for all locks, because a counter for each lock would stay for ever. In a
/// cluster, each slot has one, whose key ends with a tag of the slot.
const FENCE: &str = "lock-runtime:fence";

/// The keys of a lock, its queue, the state of its waiters, and the fence counter, in the order in
/// which the scripts expect them.
#[derive(Debug)]
pub(crate) struct Keys {
    key: Key,
    waiters: String,
    peers: String,
    fence: Cow<'static, str>,
}

impl Keys {
    /// The keys on one server.
    pub(crate) fn of(key: &Key) -> Self {
        Self::with_counter(key, FENCE.into())
    }

    /// The keys in a cluster.
    pub(crate) fn in_cluster(key: &Key) -> Self {
        let tag = Slot::of(key.as_str()).tag();
        Self::with_counter(key, format!("{FENCE}:{{{tag}}}").into())
    }

    fn with_counter(key: &Key, fence: Cow<'static, str>) -> Self {
        let helper = |name: &str| helper(key.as_str(), name);
        Self { key: key.clone(), waiters: helper("waiters"), peers: helper("peers"), fence }
    }

    pub(crate) fn all(&self) -> [&str; 4] {
        [self.key.as_str(), &self.waiters, &self.peers, &self.fence]
    }

    /// The keys for scripts without a queue. Each further key costs the server half a microsecond.
    pub(crate) fn without_queue(&self) -> [&str; 2] {
        [self.key.as_str(), &self.fence]
    }
}

/// Returns a helper key of a lock, in the slot of its key. The helper keys of different locks
/// differ.
fn helper(key: &str, name: &str) -> String {
    match slot::hash_tag(key) {
        Some(tag) if tag.len() + 2 != key.len() => [key, ":", name].concat(),
        None if !key.contains('}') => ["{", key, "}:", name].concat(),
        // `{a}` would share its helpers with `a`; other keys have unusual braces.
        _ => format!("lock-runtime:{name}:{{{}}}:{key}", Slot::of(key).tag()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(key: &str) -> Vec<String> {
        Keys::in_cluster(&key.into()).all().map(str::to_owned).into()
    }

    #[test]
    fn keys_of_a_lock_share_its_slot() {
        let odd =
            ["order:{}", "a}b", "}{", "a{}b{c}d", "{", "}", "{}", "a{b", "{a}{b}", "é}", "a b"];
        for key in ["order:42", "order:{42}:x"].into_iter().chain(odd) {
            for helper in keys(key) {
                assert_eq!(Slot::of(&helper), Slot::of(key), "{helper:?} of {key:?}");
            }
        }
    }

    #[test]
    fn keys_of_different_locks_differ() {
        let locks = ["a", "{a}", "a}", "{a", "}a", "a{}", "{}a", "{a}a"];
        let mut all: Vec<_> = locks.into_iter().flat_map(|key| keys(key)[..3].to_vec()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 3 * locks.len());
    }

    #[test]
    fn keys_of_ordinary_locks_are_readable() {
        let keys = Keys::of(&"order:42".into());
        let expected = ["order:42", "{order:42}:waiters", "{order:42}:peers", "lock-runtime:fence"];
        assert_eq!(keys.all(), expected);
    }
}
