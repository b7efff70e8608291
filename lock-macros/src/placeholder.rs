//! Placeholders of key templates: parameters, their fields and formats.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::{Ident, Index, Member};

use crate::errors::message;
use crate::suggest;

/// A parameter, or a field of a parameter, that becomes a part of the key.
pub(crate) struct Value {
    /// The parameter or field as written in the template, without the format.
    pub(crate) name: String,
    /// The identifier of the parameter, with the location of the template.
    pub(crate) param: Ident,
    pub(crate) fields: Vec<Member>,
    /// The text after the colon of `{:...}`.
    pub(crate) format: String,
    /// Whether the value goes into the key without escaping.
    pub(crate) raw: bool,
}

/// Parses the content of a placeholder, or returns the message of a compile error.
pub(crate) fn parse(content: &str, params: &[Ident], span: Span) -> Result<Value, String> {
    if content.trim().is_empty() {
        let help = "name a parameter, as in `<id>`; `<<` and `>>` are literal angle brackets";
        return Err(message("placeholder `<>` is empty", help));
    }
    if content.contains(char::is_whitespace) {
        let closed_up: String = content.split_whitespace().collect();
        return Err(message(
            format_args!("whitespace in placeholder `<{content}>`"),
            format_args!("write `<{closed_up}>`"),
        ));
    }
    let (path, format) = match content.split_once(':') {
        Some((path, format)) => (path, Some(format)),
        None => (content, None),
    };
    let mut names = path.split('.');
    let root = names.next().unwrap_or_default();
    let at_key = Span::mixed_site().located_at(span);
    let fields = names.map(|name| member(name, at_key)).collect();
    let is_path = format.is_some_and(|format| format.starts_with(':'));
    let (true, Some(fields)) = (is_name(root) && !is_path, fields) else {
        return Err(message(
            format_args!("`<{content}>` is neither a parameter nor a field of a parameter"),
            "write it like `<id>`, `<order.id>` or `<pair.0>`, or use an expression as the `key`",
        ));
    };
    let Some(param) = params.iter().find(|param| param.unraw() == root) else {
        let known: Vec<_> = params.iter().map(|param| param.unraw().to_string()).collect();
        let help = suggest::names(root, &known, "parameter", |name| format!("<{name}>"));
        return Err(message(format_args!("no parameter named `{root}`"), help));
    };
    let (format, raw) = match format {
        None => ("", false),
        Some("raw") => ("", true),
        Some(format) if is_format(format) => (format, false),
        Some("") => {
            let wrong = format_args!("`<{content}>` has an empty format");
            return Err(message(wrong, format_args!("write `<{path}>`")));
        }
        Some(format) => {
            return Err(message(
                format_args!("unsupported format `{format}` for `<{path}>`"),
                "write `<n:04>` for leading zeros, `<n:x>` for hexadecimal digits, or `<n:raw>` \
                 for no escaping; alignment is not supported",
            ));
        }
    };
    // It resolves as the parameter does, even if a macro wrote the attribute.
    let mut param = param.clone();
    param.set_span(span.resolved_at(param.span()));
    Ok(Value { name: path.to_owned(), param, fields, format: format.to_owned(), raw })
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_numeric())
        && !text.is_empty()
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn member(name: &str, span: Span) -> Option<Member> {
    if let Ok(index) = name.parse() {
        // A sign or leading zeros would parse, but are not part of an index.
        return (u32::to_string(&index) == name).then_some(Member::Unnamed(Index { index, span }));
    }
    if !is_name(name) || matches!(name, "self" | "Self" | "super" | "crate" | "_") {
        return None;
    }
    // Raw identifiers allow fields that are named like keywords.
    let mut ident: Ident = syn::parse_str(&format!("r#{name}")).ok()?;
    ident.set_span(span);
    Some(Member::Named(ident))
}

/// Returns whether `{:format}` keeps different values different: sign, `#`, leading zeros, type.
///
/// A precision truncates values, and a width without `0` pads them with spaces; both can make
/// different values equal. Alignment uses `<` and `>`, the delimiters of placeholders.
fn is_format(format: &str) -> bool {
    let rest = format.strip_prefix('+').unwrap_or(format);
    let rest = rest.strip_prefix('#').unwrap_or(rest);
    let rest = match rest.strip_prefix('0') {
        Some(width) => width.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    !format.is_empty() && matches!(rest, "" | "?" | "x" | "X" | "o" | "b" | "e" | "E")
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens as _, format_ident};

    use super::*;

    /// Parses a placeholder, with `self`, `id`, `order`, `pair` and `r#type` as parameters.
    fn parse(content: &str) -> Result<Value, String> {
        let names = ["self", "id", "order", "pair", "r#type"];
        super::parse(content, &names.map(|name| format_ident!("{name}")), Span::call_site())
    }

    /// Returns the name and the expression of a placeholder.
    fn place(content: &str) -> (String, String) {
        let value = parse(content).unwrap();
        let fields = value.fields.iter().map(|field| format!(".{}", field.to_token_stream()));
        (value.name, format!("{}{}", value.param, fields.collect::<String>()))
    }

    fn wrong(content: &str) -> String {
        parse(content).err().unwrap().lines().next().unwrap().to_owned()
    }

    #[test]
    fn parses_parameters_and_their_fields() {
        for (content, expression) in [
            ("id", "id"),
            ("order.id", "order.r#id"),
            ("pair.0.12", "pair.0.12"),
            ("self.shop.base", "self.r#shop.r#base"),
        ] {
            assert_eq!(place(content), (content.to_owned(), expression.to_owned()));
        }
    }

    #[test]
    fn parses_keywords_without_a_raw_prefix() {
        assert_eq!(place("type"), ("type".to_owned(), "r#type".to_owned()));
        assert_eq!(place("order.type"), ("order.type".to_owned(), "order.r#type".to_owned()));
    }

    #[test]
    fn keeps_formats_that_keep_values_different() {
        for format in ["04", "x", "X", "#x", "#010b", "o", "?", "+", "E"] {
            let value = parse(&format!("order.id:{format}")).unwrap();
            assert_eq!((value.name.as_str(), value.format.as_str()), ("order.id", format));
            assert!(!value.raw);
        }
        let value = parse("id:raw").unwrap();
        assert_eq!((value.name.as_str(), value.format.as_str()), ("id", ""));
        assert!(value.raw);
    }

    #[test]
    fn refuses_other_formats() {
        for format in
            ["4", "8.3", ".2", "04d", "s", "^8", "8$", ".", ".*", "{", "*^4", "raw:04", "-1", "٣"]
        {
            let expected = format!("unsupported format `{format}` for `<id>`");
            assert_eq!(wrong(&format!("id:{format}")), expected);
        }
        assert_eq!(wrong("id:"), "`<id:>` has an empty format");
    }

    #[test]
    fn suggests_parameters_for_an_unknown_name() {
        let error = parse("idd").err().unwrap();
        assert!(error.starts_with("no parameter named `idd`"), "{error}");
        assert!(error.contains("did you mean `<id>`?"), "{error}");
        assert!(error.contains("`<pair>` and `<type>`"), "{error}");
        assert_eq!(wrong("größe.x"), "no parameter named `größe`");
    }

    #[test]
    fn refuses_expressions_in_placeholders() {
        let expected =
            |content| format!("`<{content}>` is neither a parameter nor a field of a parameter");
        for content in
            ["Shop::MAX", "id()", "order.id()", "id+1", "5", "&id", "r#type", ".id", "order..id"]
        {
            assert_eq!(wrong(content), expected(content.to_owned()));
        }
        for field in ["", "-1", "+1", "01", "0x1", "99999999999", "self", "_", "crate", "a²", "²"]
        {
            let content = format!("order.{field}");
            assert_eq!(wrong(&content), expected(content.clone()));
        }
    }

    #[test]
    fn suggests_a_placeholder_without_its_whitespace() {
        let error = parse(" order . id ").err().unwrap();
        assert!(error.ends_with("write `<order.id>`"), "{error}");
        assert_eq!(wrong("\u{a0}id"), "whitespace in placeholder `<\u{a0}id>`");
    }

    #[test]
    fn refuses_an_empty_placeholder() {
        assert_eq!(wrong(""), "placeholder `<>` is empty");
        assert_eq!(wrong(" \n"), "placeholder `<>` is empty");
    }
}
