//! What is locked.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use crate::LockError;

/// Longest value of one placeholder, in bytes before escaping.
const MAX_VALUE: usize = 512;
/// Longest key, in bytes.
const MAX_KEY: usize = 4096;

/// The name of a lock, such as `order:42`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key as it is in the store.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn check(&self) -> Result<(), LockError> {
        let reason = match self.0.len() {
            0 => "it is empty".to_owned(),
            1..=MAX_KEY => return Ok(()),
            length => format!("it has {length} bytes, and the limit is {MAX_KEY}"),
        };
        Err(LockError::invalid_key(self.clone(), reason))
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

/// Written as the key in quotes; of a long one only its beginning, since errors and logs quote it.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 200;
        match self.0.char_indices().nth(SHOWN) {
            None => fmt::Debug::fmt(&*self.0, f),
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
        }
    }
}

/// A key made from the text and the values of a template, one part after the other.
///
/// Values are escaped so that two different lists of values never give the same key.
#[derive(Debug, Default)]
pub struct KeyParts {
    key: String,
    /// What was wrong with the first bad value.
    bad: Option<String>,
}

impl KeyParts {
    /// A key without parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text of the template.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.key.push_str(text);
        self
    }

    /// Adds the value of the placeholder `name`, escaped.
    #[must_use]
    pub fn value(self, name: &str, value: fmt::Arguments<'_>) -> Self {
        self.add(name, value, |key, c| match c {
            ':' | '{' | '}' | '%' => escape(key, c),
            c if c.is_control() => escape(key, c),
            c => key.push(c),
        })
    }

    /// Adds the value of the placeholder `name` as it is.
    #[must_use]
    pub fn raw(self, name: &str, value: fmt::Arguments<'_>) -> Self {
        self.add(name, value, String::push)
    }

    fn add(mut self, name: &str, value: fmt::Arguments<'_>, push: fn(&mut String, char)) -> Self {
        let start = self.key.len();
        let mut writer = Value { key: &mut self.key, bytes: 0, push };
        let written = writer.write_fmt(value);
        let length = writer.bytes;
        let problem = match written {
            _ if length > MAX_VALUE => format!("`<{name}>` is longer than {MAX_VALUE} bytes"),
            Err(_) => format!("`<{name}>` could not be formatted"),
            Ok(()) if self.key.len() == start => format!("`<{name}>` is empty"),
            Ok(()) => return self,
        };
        // Errors quote the key, so a value that does not belong there is shown by its name.
        self.key.truncate(start);
        let _ = write!(self.key, "<{name}>");
        self.bad.get_or_insert(problem);
        self
    }

    /// The key.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] when a value was empty or longer than 512 bytes, or its
    /// formatting failed.
    pub fn build(self) -> Result<Key, LockError> {
        let key = Key::from(self.key);
        match self.bad {
            None => Ok(key),
            Some(reason) => Err(LockError::invalid_key(key, reason)),
        }
    }
}

/// Percent-encodes the bytes of `c`.
fn escape(key: &mut String, c: char) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        let _ = write!(key, "%{byte:02X}");
    }
}

/// Writes a value into a key and stops when it gets too long.
struct Value<'a> {
    key: &'a mut String,
    bytes: usize,
    push: fn(&mut String, char),
}

impl fmt::Write for Value<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes += text.len();
        if self.bytes > MAX_VALUE {
            return Err(fmt::Error);
        }
        text.chars().for_each(|c| (self.push)(self.key, c));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(a: &str, b: &str) -> String {
        let parts = KeyParts::new().value("a", format_args!("{a}")).text(":");
        parts.value("b", format_args!("{b}")).build().unwrap().to_string()
    }

    #[test]
    fn ordinary_values_look_as_they_are() {
        assert_eq!(
            pair("42", "6fa459ea-ee8a-3ca4-894e-db77e160355e").as_str(),
            "42:6fa459ea-ee8a-3ca4-894e-db77e160355e"
        );
        assert_eq!(pair("tag 7/é", "a@b.c"), "tag 7/é:a@b.c");
    }

    #[test]
    fn values_cannot_reach_into_the_template() {
        assert_eq!(pair("eu:1", "7"), "eu%3A1:7");
        assert_eq!(pair("eu", "1:7"), "eu:1%3A7");
        assert_eq!(pair("{a}", "%3A\n\u{85}"), "%7Ba%7D:%253A%0A%C2%85");
    }

    #[test]
    fn raw_values_are_kept() {
        let key = KeyParts::new().raw("path", format_args!("a:{{b}}")).build();
        assert_eq!(key.unwrap().as_str(), "a:{b}");
    }

    #[test]
    fn bad_values_are_named() {
        let key =
            |value: &str| KeyParts::new().text("a:").value("id", format_args!("{value}")).build();
        let error = |value: &str| key(value).unwrap_err().to_string();
        assert!(error("").contains("`<id>` is empty"), "{}", error(""));
        assert!(error(&"x".repeat(513)).contains("`<id>` is longer than 512 bytes"));
        assert!(key(&"x".repeat(512)).is_ok());
    }

    #[test]
    fn keys_have_a_length() {
        assert!(Key::from("").check().is_err());
        assert!(Key::from("k".repeat(4096)).check().is_ok());
        assert!(Key::from("k".repeat(4097)).check().is_err());
    }
}
