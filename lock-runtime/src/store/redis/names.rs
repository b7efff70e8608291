//! The names of the keys that belong to one lock.

use crate::Key;

/// The last fence number of all locks: one counter, because one for each would stay for ever.
const FENCE: &str = "lock-runtime:fence";

/// The lock's key, its queue, what is known of those in it, and the fence counter, as the scripts
/// expect them.
#[derive(Debug)]
pub(super) struct Names {
    key: Key,
    waiters: String,
    peers: String,
}

impl Names {
    pub(super) fn of(key: &Key) -> Self {
        let key = key.clone();
        let (open, close) = if has_hash_tag(key.as_str()) { ("", "") } else { ("{", "}") };
        let helper = |name: &str| [open, key.as_str(), close, name].concat();
        let (waiters, peers) = (helper(":waiters"), helper(":peers"));
        Self { key, waiters, peers }
    }

    pub(super) fn all(&self) -> [&str; 4] {
        [self.key.as_str(), &self.waiters, &self.peers, FENCE]
    }
}

/// Whether Redis Cluster looks at a part of the key only: what stands in its first braces.
fn has_hash_tag(key: &str) -> bool {
    key.split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .is_some_and(|(tag, _)| !tag.is_empty())
}
