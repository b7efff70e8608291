//! Values in keys.

use lock_runtime::__private::KeyParts;
use lock_runtime::{Key, LockError};

/// A part of a template.
enum Part {
    Text(String),
    /// The name of a placeholder.
    Value(String),
}

/// Checks that two lists of values have different keys if they differ, and that the values can be read
/// back from a key.
///
/// `texts` are the texts of a template, with `:` where there are too few; between them are placeholders
/// with pairs of values, one for each list.
///
/// # Panics
///
/// When a property is broken.
pub fn escaping(texts: &[&str], values: &[(&str, &str)]) {
    let mut texts = texts.iter().copied();
    let mut parts = vec![Part::Text(texts.next().unwrap_or_default().to_owned())];
    for index in 0..values.len() {
        let text = texts.next().unwrap_or(":").to_owned();
        // The attribute rejects templates whose values are not separated.
        if index + 1 < values.len() && !text.contains(separates) {
            return;
        }
        parts.extend([Part::Value(format!("p{index}")), Part::Text(text)]);
    }
    let (a, b): (Vec<_>, Vec<_>) = values.iter().copied().unzip();
    if let (Some(of_a), Some(of_b)) = (check(&parts, &a), check(&parts, &b)) {
        assert_eq!(of_a == of_b, a == b, "{of_a:?} for {a:?} and {b:?}");
    }
}

/// Returns the key of a list of values, unless one of them is invalid, which must have a reason.
fn check(parts: &[Part], values: &[&str]) -> Option<String> {
    let key = key(parts, values);
    if let Some(bad) = values.iter().position(|value| !(1..=512).contains(&value.len())) {
        let error = key.expect_err("a value is empty or too long").to_string();
        assert!(error.contains(&format!("`<p{bad}>` is ")), "{error}");
        return None;
    }
    let key = key.expect("the values are valid").to_string();
    let mut values_left = values.iter();
    let pieces = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Value(_) => escaped(values_left.next().expect("a value for each placeholder")),
    });
    assert_eq!(pieces.collect::<String>(), key);
    assert_eq!(decoded(parts, &key), values, "the values of {key:?}");
    Some(key)
}

/// Builds a key as generated code does.
fn key(parts: &[Part], values: &[&str]) -> Result<Key, LockError> {
    let mut values = values.iter();
    let add = |key: KeyParts, part: &Part| match part {
        Part::Text(text) => key.text(text),
        Part::Value(name) => {
            let text = values.next().expect("a value for each placeholder");
            key.value(name, format_args!("{text}"))
        }
    };
    parts.iter().fold(KeyParts::new(), add).build()
}

/// Returns a value as it appears in a key: without separators, and unchanged if it has none.
fn escaped(value: &str) -> String {
    let key = KeyParts::new().value("value", format_args!("{value}")).build();
    let text = key.expect("the value is valid").to_string();
    assert!(!text.contains(separates), "{text:?}");
    if !value.contains(|c| c == '%' || separates(c)) {
        assert_eq!(text, value);
    }
    text
}

fn separates(c: char) -> bool {
    matches!(c, ':' | '{' | '}') || c.is_control()
}

/// Reads the values back from a key, by the separators.
fn decoded(parts: &[Part], key: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut rest = key;
    for (i, part) in parts.iter().enumerate() {
        let length = match (part, parts.get(i + 1)) {
            (Part::Text(text), _) => {
                rest = rest.strip_prefix(text.as_str()).expect("the text of the template");
                continue;
            }
            (Part::Value(_), None) => rest.len(),
            (Part::Value(_), Some(Part::Value(_))) => panic!("two values in a row"),
            (Part::Value(_), Some(Part::Text(text))) => match text.find(separates) {
                Some(offset) => rest.find(separates).expect("a separator") - offset,
                None => rest.len() - text.len(),
            },
        };
        let (value, after) = rest.split_at(length);
        values.push(unescaped(value));
        rest = after;
    }
    assert_eq!(rest, "", "{key:?} consists of its parts");
    values
}

/// Decodes a percent-encoded text.
fn unescaped(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (digits, plain) = piece.split_at_checked(2).expect("two digits after `%`");
        bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits"));
        bytes.extend(plain.bytes());
    }
    String::from_utf8(bytes).expect("a text")
}
