//! Keys of accepted templates: different lists of values have different keys.

use proc_macro2::Span;
use proc_macro2::extra::invalidate_current_thread_spans;
use proptest::collection::vec;
use proptest::prelude::*;
use quote::format_ident;
use syn::LitStr;

use super::{config, words};
use crate::template::{Part, parse};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn reads_values_back_from_keys(texts in texts(), values in vec(value(), 0..=4)) {
        check(&texts, &values);
    }
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(words(&["", "a", ":", "{", "}", "%", "%3A", "-", "<", "\n", "\u{85}"], 0..=3), 0..=4)
}

fn value() -> impl Strategy<Value = String> {
    words(&["a", "A", "3", ":", "%", "%3A", "{", "}", "-", " ", "\n", "\u{85}", "é"], 1..=4)
}

/// Checks that values can be read back from their key, so that no other list of values has it.
///
/// The template has a placeholder for each value, between `texts`; missing ones are a `:`.
fn check(texts: &[String], values: &[String]) {
    let names: Vec<_> = (0..values.len()).map(|i| format_ident!("p{i}")).collect();
    let mut texts = texts.iter().map(|text| text.replace('<', "<<").replace('>', ">>"));
    let mut template = texts.next().unwrap_or_default();
    for name in &names {
        let text = texts.next().unwrap_or_else(|| ":".to_owned());
        template.extend(["<", &name.to_string(), ">", &text]);
    }
    // Templates that would break the property are refused.
    if let Ok(parts) = parse(&LitStr::new(&template, Span::call_site()), &names) {
        let mut values_left = values.iter();
        let pieces = parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Value(_) => escaped(values_left.next().expect("a value for each placeholder")),
        });
        let key: String = pieces.collect();
        assert_eq!(values_of(&parts, &key), values, "the values of {key:?} in {template:?}");
    }
    // proc-macro2 keeps each parsed string as a source file.
    invalidate_current_thread_spans();
}

/// Escapes a value as the runtime does.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        if c == '%' || separates(c) {
            let mut utf8 = [0; 4];
            let bytes = c.encode_utf8(&mut utf8).bytes();
            text.extend(bytes.map(|byte| format!("%{byte:02X}")));
        } else {
            text.push(c);
        }
    }
    text
}

fn separates(c: char) -> bool {
    matches!(c, ':' | '{' | '}') || c.is_control()
}

/// Reads the values of a key, which end at the characters that escaping keeps out of them.
fn values_of(parts: &[Part], key: &str) -> Vec<String> {
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
    assert_eq!(rest, "", "{key:?} has nothing but its parts");
    values
}

fn unescaped(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (digits, plain) = piece.split_at_checked(2).expect("two digits after `%`");
        bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits"));
        bytes.extend(plain.bytes());
    }
    String::from_utf8(bytes).expect("UTF-8")
}
