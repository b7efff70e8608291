//! [`Keys`]: the names of the keys of one lock.

use std::borrow::Cow;

use super::topology::slot::{self, Slot};
use crate::key::Key;

/// The fence counter: one for all locks, because a counter for each lock would stay for ever. In a
/// cluster, there is one for each slot, whose name ends with a tag of the slot.
const FENCE: &str = "lock-runtime:fence";

/// The names of the lock, its queue, the state of its waiters, and the fence counter, in the order in
/// which the scripts expect them.
#[derive(Debug)]
pub(crate) struct Keys {
    key: Key,
    waiters: String,
    peers: String,
    fence: Cow<'static, str>,
}

impl Keys {
    /// The names on one server.
    pub(crate) fn of(key: &Key) -> Self {
        Self::with_counter(key, FENCE.into())
    }

    /// The names in a cluster.
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

    /// The names for scripts without a queue. Each further name costs the server half a microsecond.
    pub(crate) fn without_queue(&self) -> [&str; 2] {
        [self.key.as_str(), &self.fence]
    }
}

/// A name in the slot of the key that belongs to no other key.
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

    fn names(key: &str) -> Vec<String> {
        Keys::in_cluster(&key.into()).all().map(str::to_owned).into()
    }

    #[test]
    fn names_of_a_lock_share_its_slot() {
        let odd =
            ["order:{}", "a}b", "}{", "a{}b{c}d", "{", "}", "{}", "a{b", "{a}{b}", "é}", "a b"];
        for key in ["order:42", "order:{42}:x"].into_iter().chain(odd) {
            for name in names(key) {
                assert_eq!(Slot::of(&name), Slot::of(key), "{name:?} of {key:?}");
            }
        }
    }

    #[test]
    fn names_of_different_locks_differ() {
        let keys = ["a", "{a}", "a}", "{a", "}a", "a{}", "{}a", "{a}a"];
        let mut names: Vec<_> = keys.into_iter().flat_map(|key| names(key)[..3].to_vec()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 3 * keys.len());
    }

    #[test]
    fn names_of_ordinary_locks_are_readable() {
        let names = Keys::of(&"order:42".into());
        let expected = ["order:42", "{order:42}:waiters", "{order:42}:peers", "lock-runtime:fence"];
        assert_eq!(names.all(), expected);
    }
}
