//! The names of the keys that belong to one lock.

use std::borrow::Cow;

use super::slot::{self, Slot};
use crate::Key;

/// The last fence number of all locks: one counter, because one for each would stay for ever. In a
/// cluster there is one for each slot, with the slot's tag behind this.
const FENCE: &str = "lock-runtime:fence";

/// The lock's key, its queue, what is known of those in it, and the fence counter, as the scripts
/// expect them.
#[derive(Debug)]
pub(in crate::store) struct Names {
    key: Key,
    waiters: String,
    peers: String,
    fence: Cow<'static, str>,
}

impl Names {
    /// The names on one server.
    pub(in crate::store) fn of(key: &Key) -> Self {
        Self::with_counter(key, FENCE.into())
    }

    /// The names in a cluster.
    pub(super) fn in_cluster(key: &Key) -> Self {
        let tag = Slot::of(key.as_str()).tag();
        Self::with_counter(key, format!("{FENCE}:{{{tag}}}").into())
    }

    fn with_counter(key: &Key, fence: Cow<'static, str>) -> Self {
        let helper = |name: &str| helper(key.as_str(), name);
        Self { key: key.clone(), waiters: helper("waiters"), peers: helper("peers"), fence }
    }

    pub(in crate::store) fn all(&self) -> [&str; 4] {
        [self.key.as_str(), &self.waiters, &self.peers, &self.fence]
    }

    /// The names for scripts that know no queue: each one more costs the server half a microsecond.
    pub(in crate::store) fn without_queue(&self) -> [&str; 2] {
        [self.key.as_str(), &self.fence]
    }
}

/// A name in the slot of the key, which no other key has.
fn helper(key: &str, name: &str) -> String {
    match slot::hash_tag(key) {
        Some(tag) if tag.len() + 2 != key.len() => [key, ":", name].concat(),
        None if !key.contains('}') => ["{", key, "}:", name].concat(),
        // `{a}`, whose helpers would be those of `a`, and odd braces.
        _ => format!("lock-runtime:{name}:{{{}}}:{key}", Slot::of(key).tag()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(key: &str) -> Vec<String> {
        Names::in_cluster(&key.into()).all().map(str::to_owned).into()
    }

    #[test]
    fn all_names_of_a_lock_are_in_one_slot_whatever_its_key_is() {
        let odd =
            ["order:{}", "a}b", "}{", "a{}b{c}d", "{", "}", "{}", "a{b", "{a}{b}", "é}", "a b"];
        for key in ["order:42", "order:{42}:x"].into_iter().chain(odd) {
            for name in names(key) {
                assert_eq!(Slot::of(&name), Slot::of(key), "{name:?} of {key:?}");
            }
        }
    }

    #[test]
    fn different_keys_have_different_names() {
        let keys = ["a", "{a}", "a}", "{a", "}a", "a{}", "{}a", "{a}a"];
        let mut names: Vec<_> = keys.into_iter().flat_map(|key| names(key)[..3].to_vec()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 3 * keys.len());
    }

    #[test]
    fn ordinary_names_tell_whose_they_are() {
        let names = Names::of(&"order:42".into());
        let expected = ["order:42", "{order:42}:waiters", "{order:42}:peers", "lock-runtime:fence"];
        assert_eq!(names.all(), expected);
    }
}
