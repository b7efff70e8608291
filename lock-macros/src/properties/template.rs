//! Key templates.

use proc_macro2::Span;
use proc_macro2::extra::invalidate_current_thread_spans;
use proptest::prelude::*;
use quote::{ToTokens as _, format_ident};
use syn::ext::IdentExt as _;
use syn::{Error, Ident, LitStr};

use super::{check_message, config, words};
use crate::placeholder::Value;
use crate::template::{Part, parse};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn prints_any_template_back_or_refuses_it(text in text()) {
        check(&text);
    }
}

#[test]
fn prints_typical_templates_back_or_refuses_them() {
    let texts = ["{id}", "{<order.id>}:<pair.0:04>:<type:raw><<>>", "<id>-<order>"];
    texts.into_iter().for_each(check);
}

fn text() -> impl Strategy<Value = String> {
    let marks = words(
        &[
            "<", ">", "<<", ">>", ":", ".", "{", "}", "%", "#", " ", "\n", "\r", "\"", "\\", "`",
            "é", "日", "id", "<id>", "order", "pair", "self", "type", "größe", "r#", "_", "0",
            "04", "raw", "?", "x", "-1", "{id}",
        ],
        0..=12,
    );
    let pieces =
        words(&["<id>", "<order.id:04>", "<pair.0:raw>", ":", "{", "}", "<<", ">>", "a"], 0..=8);
    prop_oneof![marks, pieces]
}

/// Checks that `text` is read as a template that prints back to it, or refused with errors that
/// point at the mistake, whichever kind of literal holds it.
fn check(text: &str) {
    let params =
        ["self", "id", "order", "pair", "r#type", "größe"].map(|name| format_ident!("{name}"));
    for literal in literals(text) {
        let literal: LitStr = syn::parse_str(&literal).expect("a literal");
        assert_eq!(literal.value(), text);
        check_literal(&literal, &params);
        check_literal(&literal, &[]);
    }
    // proc-macro2 keeps each parsed string as a source file.
    invalidate_current_thread_spans();
}

/// Literals for `text`: one with escapes, and a raw one where possible.
fn literals(text: &str) -> impl Iterator<Item = String> {
    let escaped = LitStr::new(text, Span::call_site()).token().to_string();
    let runs = text.split(|c| c != '#').map(str::len);
    let hashes = "#".repeat(1 + runs.max().unwrap_or_default());
    let raw = (!text.contains('\r')).then(|| format!("r{hashes}\"{text}\"{hashes}"));
    [escaped].into_iter().chain(raw)
}

fn check_literal(literal: &LitStr, params: &[Ident]) {
    match parse(literal, params) {
        Ok(parts) => {
            let alternate = |pair: &[Part]| !matches!(pair, [Part::Text(_), Part::Text(_)]);
            assert!(parts.windows(2).all(alternate), "two texts in a row: {}", literal.value());
            assert_eq!(parts.iter().map(print).collect::<String>(), literal.value());
        }
        Err(errors) => errors.into_iter().for_each(|error| check_refusal(literal, &error)),
    }
}

/// Prints a part as it is written in a template.
fn print(part: &Part) -> String {
    match part {
        Part::Text(text) => {
            assert!(!text.is_empty());
            text.replace('<', "<<").replace('>', ">>")
        }
        Part::Value(value) => {
            assert_eq!(path(value), value.name);
            match (value.raw, value.format.as_str()) {
                (true, "") => format!("<{}:raw>", value.name),
                (false, "") => format!("<{}>", value.name),
                (false, format) => format!("<{}:{format}>", value.name),
                (true, format) => panic!("`{format}` and raw"),
            }
        }
    }
}

/// Returns the expression that generated code has for a value, without `r#`.
fn path(value: &Value) -> String {
    let fields = value.fields.iter().map(|field| field.to_token_stream().to_string());
    let names = [value.param.unraw().to_string()].into_iter().chain(fields);
    names.map(|name| name.trim_start_matches("r#").to_owned()).collect::<Vec<_>>().join(".")
}

/// Checks the form of an error, and that it quotes the source text at its span.
fn check_refusal(literal: &LitStr, error: &Error) {
    let text = error.to_string();
    check_message(&text);
    assert!(!text.contains("write `<>`"), "no placeholder: {text}");
    // Outside a macro, proc-macro2 counts columns in characters; rustc counts bytes.
    let countable = |c: char| c.is_ascii() && c != '`';
    let place = error.span().source_text().filter(|_| literal.value().chars().all(countable));
    let Some(place) = place else { return };
    let whole = literal.token().to_string();
    if place == whole {
        return;
    }
    assert!(literal.value().contains(&place), "{place:?} is not a part of {whole}");
    // Messages show control characters as escapes.
    let place: String = place
        .chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() })
        .collect();
    let quoted = text.split('`').nth(1).unwrap_or_default();
    let quoted = match quoted.strip_prefix('<') {
        Some(name) if quoted.len() > 1 => name.strip_suffix('>').unwrap_or(name),
        _ => quoted,
    };
    assert!(place.contains(quoted), "{place:?} in {whole}, but: {text}");
}
