//! Key templates: text with placeholders.

use std::mem;
use std::ops::Range;

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::{Error, Ident, LitStr};

use crate::errors::{all, message};
use crate::placeholder::{self, Value};

pub(crate) enum Part {
    Text(String),
    Value(Value),
}

/// Parses a template whose placeholders may name `params`.
pub(crate) fn parse(lit: &LitStr, params: &[Ident]) -> syn::Result<Vec<Part>> {
    let template = lit.value();
    let error = |Mistake(range, message)| Error::new(span_in(lit, range), message);
    if template.is_empty() {
        let message = message("the key is empty", "say what to lock, as in \"order:<id>\"");
        return Err(error(Mistake(0..0, message)));
    }
    let parts = split(&template).map_err(error)?.into_iter().map(|piece| match piece {
        Piece::Text(text) => Ok(Part::Text(text)),
        Piece::Placeholder(range) => {
            placeholder::parse(&template[range.clone()], params, lit.span())
                .map(Part::Value)
                .map_err(|message| error(Mistake(range, message)))
        }
    });
    let parts = all(parts)?;
    let mut mistakes = braced_params(&template, &parts, params);
    mistakes.extend(unseparated(&template, &parts));
    all(mistakes.into_iter().map(|mistake| Err::<(), _>(error(mistake))))?;
    Ok(parts)
}

/// A range of the template, and the message of the compile error for it.
#[derive(Debug)]
struct Mistake(Range<usize>, String);

/// Returns the span of a range of the template, or of the whole literal if that is not known.
fn span_in(lit: &LitStr, range: Range<usize>) -> Span {
    let written = lit.token().to_string();
    match written.split_once(&lit.value()) {
        // A literal without escapes has its value, unchanged, between the quotes.
        Some((open, close)) if open.ends_with('"') && close.starts_with('"') => {
            let range = open.len() + range.start..open.len() + range.end;
            lit.token().subspan(range).unwrap_or_else(|| lit.span())
        }
        _ => lit.span(),
    }
}

enum Piece {
    Text(String),
    /// The range of its content.
    Placeholder(Range<usize>),
}

fn split(template: &str) -> Result<Vec<Piece>, Mistake> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(length) = rest.find(['<', '>']) {
        let (plain, marked) = rest.split_at(length);
        text += plain;
        let mark = template.len() - marked.len();
        if marked.starts_with("<<") || marked.starts_with(">>") {
            text += &marked[..1];
            rest = &marked[2..];
            continue;
        }
        let Some(inner) = marked.strip_prefix('<') else {
            let message = message("unmatched `>`", "write `>>` for a literal `>`");
            return Err(Mistake(mark..mark + 1, message));
        };
        match inner.split_once('>') {
            Some((content, after)) if !content.contains('<') => {
                if !text.is_empty() {
                    pieces.push(Piece::Text(mem::take(&mut text)));
                }
                pieces.push(Piece::Placeholder(mark + 1..mark + 1 + content.len()));
                rest = after;
            }
            _ => {
                let help = "write `<id>` for a placeholder, or `<<` for a literal `<`";
                return Err(Mistake(mark..mark + 1, message("unclosed `<`", help)));
            }
        }
    }
    text += rest;
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// Finds parameters in braces, as in `format!`, that the key does not use otherwise.
fn braced_params(template: &str, parts: &[Part], params: &[Ident]) -> Vec<Mistake> {
    let used = |name: &Ident| {
        let is_it =
            |part: &Part| matches!(part, Part::Value(value) if value.param.unraw() == *name);
        parts.iter().any(is_it)
    };
    let names = params.iter().map(IdentExt::unraw).filter(|name| !used(name));
    let braced = names.filter_map(|name| {
        let start = template.find(&format!("{{{name}}}"))?;
        let range = start..start + name.to_string().len() + 2;
        let wrong = format_args!("`{{{name}}}` is literal text, not a placeholder");
        let help = format_args!("write `<{name}>`, or `{{<{name}>}}` for a Redis Cluster hash tag");
        Some(Mistake(range, message(wrong, help)))
    });
    braced.collect()
}

/// Finds neighbouring values that have no separator between them.
///
/// A separator is a character that values contain only escaped. Without a separator, different
/// lists of arguments could give the same key: with `<a>-<b>`, the values `"1-2"` and `"3"` give
/// the same key as `"1"` and `"2-3"`. `%` is not a separator, because it begins every escape.
fn unseparated(template: &str, parts: &[Part]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for i in 0..parts.len() {
        let (a, text, b) = match &parts[i..] {
            [Part::Value(a), Part::Value(b), ..] => (a, "", b),
            [Part::Value(a), Part::Text(text), Part::Value(b), ..] => (a, text.as_str(), b),
            _ => continue,
        };
        let escaped = |c: char| matches!(c, ':' | '{' | '}') || c.is_ascii_control();
        if a.raw || b.raw || text.contains(escaped) {
            continue;
        }
        let (a, b) = (&a.name, &b.name);
        let message = message(
            format_args!("different values of `<{a}>` and `<{b}>` can give the same key"),
            format_args!("put a `:` between them, as in `<{a}>:<{b}>`"),
        );
        mistakes.push(Mistake(0..template.len(), message));
    }
    mistakes
}

#[cfg(test)]
mod tests {
    use quote::format_ident;
    use syn::parse_quote;

    use super::*;

    /// Parses a template, with `id`, `order`, `pair` and `r#type` as parameters.
    fn parts(template: &str) -> syn::Result<Vec<Part>> {
        let names = ["id", "order", "pair", "r#type"];
        parse(&parse_quote!(#template), &names.map(|name| format_ident!("{name}")))
    }

    /// Returns the texts, and the names of the placeholders in angle brackets.
    fn shown(template: &str) -> Vec<String> {
        let show = |part| match part {
            Part::Text(text) => text,
            Part::Value(value) => format!("<{}>", value.name),
        };
        parts(template).unwrap().into_iter().map(show).collect()
    }

    fn wrong(template: &str) -> Vec<String> {
        let errors = parts(template).err().unwrap().into_iter().map(|error| error.to_string());
        errors.map(|error| error.lines().next().unwrap().to_owned()).collect()
    }

    #[test]
    fn splits_texts_and_placeholders() {
        assert_eq!(shown("order:<id>:<pair.0:04>"), ["order:", "<id>", ":", "<pair.0>"]);
        assert_eq!(shown("<type>:x"), ["<type>", ":x"]);
        assert_eq!(wrong("<a>:<id>:<b>"), ["no parameter named `a`", "no parameter named `b`"]);
    }

    #[test]
    fn keeps_other_characters_literal() {
        let literal = "{tenant}:100%\\ \"quoted\" é日本 {} $";
        assert_eq!(shown(literal), [literal]);
        assert_eq!(shown("<<id>>"), ["<id>"]);
        assert_eq!(shown("<<<id>>>"), ["<", "<id>", ">"]);
        assert_eq!(shown("a<<b>>c<id>"), ["a<b>c", "<id>"]);
    }

    #[test]
    fn refuses_unpaired_angle_brackets() {
        assert_eq!(wrong("é<"), ["unclosed `<`"]);
        assert_eq!(wrong("<id"), ["unclosed `<`"]);
        assert_eq!(wrong("<id<id>"), ["unclosed `<`"]);
        assert_eq!(wrong("<日<<"), ["unclosed `<`"]);
        assert_eq!(wrong("id>"), ["unmatched `>`"]);
        assert_eq!(wrong("<id>>>>"), ["unmatched `>`"]);
        assert_eq!(wrong("a:<>"), ["placeholder `<>` is empty"]);
        assert_eq!(wrong(""), ["the key is empty"]);
    }

    #[test]
    fn refuses_a_parameter_in_braces_unless_used_otherwise() {
        assert_eq!(wrong("order:{id}"), ["`{id}` is literal text, not a placeholder"]);
        assert_eq!(wrong("{type}:<id>"), ["`{type}` is literal text, not a placeholder"]);
        assert_eq!(shown("{order}:<order.id>").len(), 2);
        assert_eq!(shown("{<id>}"), ["{", "<id>", "}"]);
        assert_eq!(shown("{idd}{order.id}"), ["{idd}{order.id}"]);
    }

    #[test]
    fn requires_an_escaped_character_between_values() {
        for between in [":", "{", "}", "-:-", "\n"] {
            assert_eq!(shown(&format!("<id>{between}<order>")).len(), 3, "{between:?}");
        }
        for between in ["", "-", "%", "%3A", "/", " ", "é", "<<"] {
            assert_eq!(
                wrong(&format!("a:<id>{between}<pair.0>")),
                ["different values of `<id>` and `<pair.0>` can give the same key"],
                "{between:?}"
            );
        }
        assert_eq!(wrong("<id>-<id>:<id>-<id>").len(), 2);
        assert_eq!(shown("<id:raw>-<order>").len(), 3);
        assert_eq!(shown("<id>-<order:raw>").len(), 3);
    }

    #[test]
    fn counts_ranges_in_bytes_of_the_template() {
        let placeholders = |template| {
            let pieces = split(template).unwrap().into_iter();
            let of_placeholder = |piece| match piece {
                Piece::Placeholder(range) => Some(&template[range]),
                Piece::Text(_) => None,
            };
            pieces.filter_map(of_placeholder).collect::<Vec<_>>()
        };
        assert_eq!(placeholders("é<a>>>日<b.c:04>"), ["a", "b.c:04"]);
        let Mistake(range, _) = split("日本:<<<").err().unwrap();
        assert_eq!(range, 9..10);
        let mistakes = braced_params("é{id}", &[], &[format_ident!("id")]);
        assert_eq!(mistakes[0].0, 2..6);
    }
}
