//! The arguments of the attribute, as written.

use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Result, Token};

use crate::errors::{all, message};
use crate::suggest;

#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Option<Expr>,
    pub(crate) ttl: Option<Expr>,
    pub(crate) wait: Option<Expr>,
    pub(crate) renew: Option<Expr>,
    pub(crate) max_hold: Option<Expr>,
    pub(crate) min_hold: Option<Expr>,
    pub(crate) or_else: Option<Expr>,
    pub(crate) lease: Option<Expr>,
    pub(crate) manager: Option<Expr>,
    pub(crate) runtime: Option<Expr>,
    /// Errors for unknown and repeated names.
    pub(crate) wrong_names: Option<Error>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self::default();
        let mut slots = [
            ("key", &mut args.key),
            ("ttl", &mut args.ttl),
            ("wait", &mut args.wait),
            ("renew", &mut args.renew),
            ("max_hold", &mut args.max_hold),
            ("min_hold", &mut args.min_hold),
            ("or_else", &mut args.or_else),
            ("lease", &mut args.lease),
            ("manager", &mut args.manager),
            ("crate", &mut args.runtime),
        ];
        let known = slots.each_ref().map(|(name, _)| *name);
        let mut names = Vec::new();
        for Arg { name, value } in Punctuated::<Arg, Token![,]>::parse_terminated(input)? {
            let text = name.to_string();
            // A misspelt name stands for the name it resembles, so that its value is checked, too.
            let slot = suggest::nearest(&text, &known).map(|position| &mut *slots[position].1);
            let twice = slot.is_some_and(|slot| slot.replace(value).is_some());
            let message = if !known.contains(&text.as_str()) {
                let help = suggest::names(&text, &known, "argument", str::to_owned);
                message(format_args!("unknown argument `{text}`"), help)
            } else if twice {
                message(format_args!("argument `{text}` is given twice"), "remove one of the two")
            } else {
                continue;
            };
            names.push(Err::<(), _>(Error::new(name.span(), message)));
        }
        args.wrong_names = all(names).err();
        Ok(args)
    }
}

struct Arg {
    name: Ident,
    value: Expr,
}

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(message(
                "expected an argument name",
                "arguments are named, as in `key = \"order:<id>\"`",
            )));
        }
        let name = input.call(Ident::parse_any)?;
        let equals: Option<Token![=]> = input.parse()?;
        if equals.is_none() || input.is_empty() || input.peek(Token![,]) {
            let wrong = format_args!("argument `{name}` has no value");
            let help = format_args!("write `{name} = ...`");
            return Err(Error::new(name.span(), message(wrong, help)));
        }
        let value = input.parse()?;
        if !input.is_empty() && !input.peek(Token![,]) {
            let help =
                "separate arguments with commas, as in `key = \"order:<id>\", ttl = \"30s\"`";
            return Err(input.error(message("expected `,`", help)));
        }
        Ok(Self { name, value })
    }
}

/// Strips the invisible groups around a value that a macro passed on.
pub(crate) fn ungroup(mut value: &Expr) -> &Expr {
    while let Expr::Group(group) = value {
        value = &group.expr;
    }
    value
}

/// Returns a string literal, or `None` for an expression that is not a literal.
///
/// For other literals, the error suggests `example`.
pub(crate) fn string<'a>(value: &'a Expr, example: &str) -> Result<Option<&'a LitStr>> {
    match ungroup(value) {
        Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) => Ok(Some(lit)),
        Expr::Lit(other) => {
            let wrong = format_args!("expected a string, found `{}`", other.to_token_stream());
            let help = format_args!("write `{example}`");
            Err(Error::new(other.lit.span(), message(wrong, help)))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::parse2;

    use super::*;

    fn first_lines(error: Error) -> Vec<String> {
        let lines = error.into_iter().map(|error| error.to_string());
        lines.filter_map(|text| text.lines().next().map(String::from)).collect()
    }

    #[test]
    fn keeps_values_as_written() {
        let args: Args =
            parse2(quote!(ttl = 2 * MINUTE, crate = ::locks, or_else = |_| 0,)).unwrap();
        assert!(args.wrong_names.is_none());
        let value = |value: Option<Expr>| value.map(|value| value.into_token_stream().to_string());
        assert_eq!(value(args.ttl).as_deref(), Some("2 * MINUTE"));
        assert!(matches!(args.runtime, Some(Expr::Path(_))));
        assert!(matches!(args.or_else, Some(Expr::Closure(_))));
        assert!(args.key.is_none());
    }

    #[test]
    fn parses_an_empty_list_of_arguments() {
        assert!(parse2::<Args>(quote!()).is_ok_and(|args| args.key.is_none()));
    }

    #[test]
    fn reports_every_unknown_or_repeated_name() {
        let args: Args = parse2(quote!(key = "a", tll = "1s", key = "b", retries = 3)).unwrap();
        assert_eq!(
            first_lines(args.wrong_names.unwrap()),
            [
                "unknown argument `tll`",
                "argument `key` is given twice",
                "unknown argument `retries`",
            ]
        );
    }

    #[test]
    fn takes_a_misspelt_argument_for_the_nearest_name() {
        let args: Args = parse2(quote!(key = "a", tll = "30s")).unwrap();
        assert!(args.ttl.is_some());
        let message = args.wrong_names.unwrap().to_string();
        assert!(message.contains("did you mean `ttl`?"), "{message}");
        assert!(message.contains("`key`, `ttl`, `wait`"), "{message}");
    }

    #[test]
    fn refuses_arguments_without_a_name_or_a_value() {
        for (tokens, wrong) in [
            (quote!("order:<id>"), "expected an argument name"),
            (quote!(key), "argument `key` has no value"),
            (quote!(key: "a"), "argument `key` has no value"),
            (quote!(key("a")), "argument `key` has no value"),
            (quote!(key = ), "argument `key` has no value"),
            (quote!(key = , ttl = "1s"), "argument `key` has no value"),
        ] {
            let error = parse2::<Args>(tokens).err().unwrap();
            assert_eq!(first_lines(error), [wrong]);
        }
    }
}
