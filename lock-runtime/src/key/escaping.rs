//! [`KeyParts`]: how generated code builds a key, and escapes the values in it.

use std::fmt::{self, Write as _};

use crate::error::LockError;
use crate::key::Key;

/// Longest value of one placeholder, in bytes before escaping.
const MAX_VALUE: usize = 512;

/// Builds a key from the text and the values of a template, one part after the other.
///
/// Values are escaped, so that two different lists of values never yield the same key.
#[derive(Debug, Default)]
pub struct KeyParts {
    key: String,
    /// What is wrong with the first invalid value.
    problem: Option<String>,
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
        // Errors quote the key: a rejected value appears there as its placeholder.
        self.key.truncate(start);
        let _ = write!(self.key, "<{name}>");
        self.problem.get_or_insert(problem);
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
        match self.problem {
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

/// Writes a value into a key, up to the longest value allowed.
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
    fn keeps_ordinary_values_readable() {
        assert_eq!(
            pair("42", "6fa459ea-ee8a-3ca4-894e-db77e160355e").as_str(),
            "42:6fa459ea-ee8a-3ca4-894e-db77e160355e"
        );
        assert_eq!(pair("tag 7/é", "a@b.c"), "tag 7/é:a@b.c");
    }

    #[test]
    fn escapes_values_that_reach_into_the_template() {
        assert_eq!(pair("eu:1", "7"), "eu%3A1:7");
        assert_eq!(pair("eu", "1:7"), "eu:1%3A7");
        assert_eq!(pair("{a}", "%3A\n\u{85}"), "%7Ba%7D:%253A%0A%C2%85");
    }

    #[test]
    fn keeps_raw_values() {
        let key = KeyParts::new().raw("path", format_args!("a:{{b}}")).build();
        assert_eq!(key.unwrap().as_str(), "a:{b}");
    }

    #[test]
    fn names_invalid_values() {
        let key =
            |value: &str| KeyParts::new().text("a:").value("id", format_args!("{value}")).build();
        let error = |value: &str| key(value).unwrap_err().to_string();
        assert!(error("").contains("`<id>` is empty"), "{}", error(""));
        assert!(error(&"x".repeat(513)).contains("`<id>` is longer than 512 bytes"));
        assert!(key(&"x".repeat(512)).is_ok());
    }
}
