//! [`Key`]: the name of a lock. The escaping of values that go into a key is in [`escaping`].

pub(crate) mod escaping;

use std::fmt;
use std::sync::Arc;

/// Longest key, in bytes.
const MAX_KEY: usize = 4096;

/// The name of a lock, such as `order:42`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key as the store knows it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is wrong with the length of the key, if anything.
    pub(crate) fn length_error(&self) -> Option<String> {
        match self.0.len() {
            0 => Some("it is empty".to_owned()),
            1..=MAX_KEY => None,
            length => Some(format!("it has {length} bytes, and the limit is {MAX_KEY}")),
        }
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Self(key.into())
    }
}

impl From<String> for Key {
    fn from(key: String) -> Self {
        Self(key.into())
    }
}

impl From<&String> for Key {
    fn from(key: &String) -> Self {
        key.as_str().into()
    }
}

impl From<&Key> for Key {
    fn from(key: &Key) -> Self {
        key.clone()
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes the key in quotes, and only the beginning of a long key, because errors and logs quote
/// it.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 200;
        match self.0.char_indices().nth(SHOWN) {
            None => fmt::Debug::fmt(&*self.0, f),
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_length_of_keys() {
        assert!(Key::from("").length_error().is_some());
        assert!(Key::from("k".repeat(4096)).length_error().is_none());
        assert!(Key::from("k".repeat(4097)).length_error().is_some());
    }
}
