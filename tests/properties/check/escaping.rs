//! Values in keys.

use lock_runtime::__private::KeyParts;
use lock_runtime::{Key, LockError};
use proc_macro2::Span;
use proc_macro2::extra::invalidate_current_thread_spans;
use quote::format_ident;
use syn::LitStr;

use crate::template::{Part, parse};

/// Checks that two lists of values have two keys, and that values can be told from a key.
///
/// There are texts of a template, a `:` where too few are given, and between them placeholders with
/// pairs of values, one for each list.
///
/// # Panics
///
/// When a property is broken.
pub fn escaping(texts: &[&str], values: &[(&str, &str)]) {
    let names: Vec<_> = (0..values.len()).map(|i| format_ident!("p{i}")).collect();
    let mut texts = texts.iter().map(|text| text.replace('<', "<<").replace('>', ">>"));
    let mut template = texts.next().unwrap_or_default();
    for name in &names {
        let text = texts.next().unwrap_or_else(|| ":".to_owned());
        template.extend(["<", &name.to_string(), ">", &text]);
    }
    // Templates that would break the property are refused.
    if let Ok(parts) = parse(&LitStr::new(&template, Span::call_site()), &names) {
        let (a, b): (Vec<_>, Vec<_>) = values.iter().copied().unzip();
        let keys = (check(&parts, &a), check(&parts, &b));
        if let (Some(of_a), Some(of_b)) = keys {
            assert_eq!(of_a == of_b, a == b, "{of_a:?} for {a:?} and {b:?} in {template:?}");
        }
    }
    invalidate_current_thread_spans();
}

/// The key for a list of values, unless one of them is refused, which has to have a reason.
fn check(parts: &[Part], values: &[&str]) -> Option<String> {
    let key = key(parts, values);
    if let Some(bad) = values.iter().position(|value| !(1..=512).contains(&value.len())) {
        let error = key.expect_err("a value is empty or too long").to_string();
        assert!(error.contains(&format!("`<p{bad}>` is ")), "{error}");
        return None;
    }
    let key = key.expect("values are fine").to_string();
    let mut values_left = values.iter();
    let pieces = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Value(_) => escaped(values_left.next().expect("a value for each placeholder")),
    });
    assert_eq!(pieces.collect::<String>(), key);
    assert_eq!(decoded(parts, &key), values, "the values of {key:?}");
    Some(key)
}

/// The key that generated code makes.
fn key(parts: &[Part], values: &[&str]) -> Result<Key, LockError> {
    let mut values = values.iter();
    let add = |key: KeyParts, part: &Part| match part {
        Part::Text(text) => key.text(text),
        Part::Value(value) => {
            let text = values.next().expect("a value for each placeholder");
            key.value(&value.name, format_args!("{text}"))
        }
    };
    parts.iter().fold(KeyParts::new(), add).build()
}

/// What a value becomes in a key: nothing that separates, and itself if it has no such thing.
fn escaped(value: &str) -> String {
    let key = KeyParts::new().value("value", format_args!("{value}")).build();
    let text = key.expect("the value is fine").to_string();
    assert!(!text.contains(separates), "{text:?}");
    if !value.contains(|c| c == '%' || separates(c)) {
        assert_eq!(text, value);
    }
    text
}

fn separates(c: char) -> bool {
    matches!(c, ':' | '{' | '}') || c.is_control()
}

/// The values in a key, found by what separates them.
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
                Some(offset) => rest.find(separates).expect("what separates") - offset,
                None => rest.len() - text.len(),
            },
        };
        let (value, after) = rest.split_at(length);
        values.push(unescaped(value));
        rest = after;
    }
    assert_eq!(rest, "", "{key:?} has no more than its parts");
    values
}

/// The value that a percent-encoded text is of.
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
