//! Key templates.

use proc_macro2::Span;
use proc_macro2::extra::invalidate_current_thread_spans;
use quote::{ToTokens as _, format_ident};
use syn::ext::IdentExt as _;
use syn::{Error, Ident, LitStr};

use super::message::message;
use crate::placeholder::Value;
use crate::template::{Part, parse};

/// Checks that a text is read as a template that prints back to it, or refused with errors that
/// point to what they are about, however it is written as a literal.
///
/// # Panics
///
/// When a property is broken.
pub fn template(text: &str) {
    let params =
        ["self", "id", "order", "pair", "r#type", "größe"].map(|name| format_ident!("{name}"));
    for literal in literals(text) {
        let literal: LitStr = syn::parse_str(&literal).expect("a literal");
        assert_eq!(literal.value(), text);
        read(&literal, &params);
        read(&literal, &[]);
    }
    // Every literal was noted as a source file.
    invalidate_current_thread_spans();
}

/// The ways to write a text: with escapes, and without where that is possible.
fn literals(text: &str) -> impl Iterator<Item = String> {
    let escaped = LitStr::new(text, Span::call_site()).token().to_string();
    let runs = text.split(|c| c != '#').map(str::len);
    let hashes = "#".repeat(1 + runs.max().unwrap_or_default());
    let raw = (!text.contains('\r')).then(|| format!("r{hashes}\"{text}\"{hashes}"));
    [escaped].into_iter().chain(raw)
}

fn read(literal: &LitStr, params: &[Ident]) {
    match parse(literal, params) {
        Ok(parts) => {
            let alternate = |pair: &[Part]| !matches!(pair, [Part::Text(_), Part::Text(_)]);
            assert!(parts.windows(2).all(alternate), "two texts in a row: {}", literal.value());
            assert_eq!(parts.iter().map(print).collect::<String>(), literal.value());
        }
        Err(errors) => errors.into_iter().for_each(|error| refused(literal, &error)),
    }
}

/// A part as it has to be written.
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

/// The expression that generated code has for a value, without `r#`.
fn path(value: &Value) -> String {
    let fields = value.fields.iter().map(|field| field.to_token_stream().to_string());
    let names = [value.param.unraw().to_string()].into_iter().chain(fields);
    names.map(|name| name.trim_start_matches("r#").to_owned()).collect::<Vec<_>>().join(".")
}

/// Checks the message of an error, and that it quotes what stands where it points to.
fn refused(literal: &LitStr, error: &Error) {
    let text = error.to_string();
    message(&text);
    assert!(!text.contains("write `<>`"), "no placeholder: {text}");
    // A fuzzer's build keeps no source text. The columns that are counted here are characters,
    // whereas those of rustc are bytes.
    let countable = |c: char| c.is_ascii() && c != '`';
    let place = error.span().source_text().filter(|_| literal.value().chars().all(countable));
    let Some(place) = place else { return };
    let whole = literal.token().to_string();
    if place == whole {
        return;
    }
    assert!(literal.value().contains(&place), "{place:?} is not a part of {whole}");
    // Messages quote control characters as a literal has them.
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
