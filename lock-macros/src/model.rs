//! The checked model of one use of the attribute.

use proc_macro2::Span;
use quote::ToTokens as _;
use syn::{Error, Expr, Ident, LitStr, Path, Result, parse_quote_spanned, parse2};

use crate::args::{Args, string, ungroup};
use crate::errors::{both, message};
use crate::func::{Func, Output};
use crate::template::{self, Part};
use crate::times::Times;

pub(crate) struct Lock {
    pub(crate) key: Key,
    pub(crate) times: Times,
    pub(crate) or_else: Option<Expr>,
    pub(crate) lease: Option<Ident>,
    pub(crate) manager: Option<Expr>,
    pub(crate) runtime: Path,
    pub(crate) output: Output,
}

pub(crate) enum Key {
    Template(LitStr, Vec<Part>),
    Expr(Expr),
}

impl Lock {
    pub(crate) fn check(args: &Args, func: &Func) -> Result<Self> {
        let names = args.wrong_names.clone().map_or(Ok(()), Err);
        let required = match (&args.key, &args.ttl) {
            (Some(key), Some(ttl)) => both(self::key(key, func), Times::check(ttl, args)),
            (Some(key), None) => both(
                self::key(key, func),
                Err(missing(
                    "argument `ttl` is required: without it, the lock would never expire",
                    "say how long the lease lasts without renewal, as in `ttl = \"30s\"`",
                )),
            ),
            (None, Some(ttl)) => both(
                Err(missing(
                    "argument `key` is required",
                    "say what to lock, as in `key = \"order:<id>\"`",
                )),
                Times::check(ttl, args),
            ),
            (None, None) => Err(missing(
                "argument `key` is required",
                "say what to lock and for how long, as in `key = \"order:<id>\", ttl = \"30s\"`",
            )),
        };
        let lease = lease(args);
        let runtime = runtime(args);
        let (((), (key, times)), ((lease, runtime), output)) =
            both(both(names, required), both(both(lease, runtime), func.output()))?;
        Ok(Self {
            key,
            times,
            or_else: args.or_else.clone(),
            lease,
            manager: args.manager.clone(),
            runtime,
            output,
        })
    }
}

/// Reports a missing argument at the attribute.
fn missing(wrong: &str, help: &str) -> Error {
    Error::new(Span::call_site(), message(wrong, help))
}

fn key(value: &Expr, func: &Func) -> Result<Key> {
    let Some(lit) = string(value, "key = \"order:<id>\"")? else {
        return Ok(Key::Expr(value.clone()));
    };
    let params: Vec<_> = func.params().into_iter().map(|param| param.ident).collect();
    let parts = template::parse(lit, &params)?;
    Ok(Key::Template(lit.clone(), parts))
}

/// Returns the name of the lease in the body.
pub(crate) fn lease(args: &Args) -> Result<Option<Ident>> {
    let Some(value) = &args.lease else {
        return Ok(None);
    };
    // syn does not parse keywords, such as `self`, as identifiers.
    parse2(value.to_token_stream()).map(Some).map_err(|_| {
        let help = "write `lease = held`, and use `held` in the body, as in `held.is_lost()`";
        Error::new_spanned(value, message("`lease` must be a name", help))
    })
}

/// Returns the path of the runtime crate.
pub(crate) fn runtime(args: &Args) -> Result<Path> {
    match args.runtime.as_ref().map(ungroup) {
        None => Ok(parse_quote_spanned!(Span::mixed_site()=> ::lock_runtime)),
        Some(Expr::Path(path)) if path.qself.is_none() => Ok(path.path.clone()),
        Some(value) => Err(Error::new_spanned(
            value,
            message("`crate` must be a path", "write it without quotes, as in `crate = ::locks`"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::quote;

    use super::*;

    fn check(args: TokenStream) -> Result<Lock> {
        let func = Func::parse(quote!(
            async fn f(&self, id: u64) {}
        ))?;
        Lock::check(&parse2(args)?, &func)
    }

    fn wrong(args: TokenStream) -> Vec<String> {
        let errors = check(args).err().unwrap().into_iter().map(|error| error.to_string());
        errors.map(|error| error.lines().next().unwrap().to_owned()).collect()
    }

    #[test]
    fn takes_a_string_for_a_template_and_the_rest_for_expressions() {
        let key = |args| check(args).unwrap().key;
        let template = key(quote!(key = "a:<id>", ttl = "5s"));
        assert!(matches!(template, Key::Template(_, parts) if parts.len() == 2));
        assert!(matches!(key(quote!(key = format!("a"), ttl = "5s")), Key::Expr(Expr::Macro(_))));
    }

    #[test]
    fn requires_a_key_and_a_ttl() {
        let no_ttl = "argument `ttl` is required: without it, the lock would never expire";
        assert_eq!(wrong(quote!()), ["argument `key` is required"]);
        assert_eq!(wrong(quote!(ttl = "5s")), ["argument `key` is required"]);
        assert_eq!(wrong(quote!(key = "a")), [no_ttl]);
        assert_eq!(wrong(quote!(key = 5, ttl = "5s")), ["expected a string, found `5`"]);
    }

    #[test]
    fn requires_a_name_as_lease() {
        let lease = |args| check(args).unwrap().lease.unwrap().to_string();
        assert_eq!(lease(quote!(key = "a", ttl = "5s", lease = held)), "held");
        assert_eq!(lease(quote!(key = "a", ttl = "5s", lease = r#type)), "r#type");
        for value in [quote!("held"), quote!(self), quote!(a::b), quote!(a.b), quote!(_)] {
            let args = quote!(key = "a", ttl = "5s", lease = #value);
            assert_eq!(wrong(args), ["`lease` must be a name"], "{value}");
        }
    }

    #[test]
    fn requires_a_path_as_runtime() {
        let runtime = |args| check(args).unwrap().runtime.to_token_stream().to_string();
        assert_eq!(runtime(quote!(key = "a", ttl = "5s")), ":: lock_runtime");
        assert_eq!(runtime(quote!(key = "a", ttl = "5s", crate = crate::locks)), "crate :: locks");
        for value in [quote!("locks"), quote!(locks()), quote!(<T as U>::locks)] {
            let args = quote!(key = "a", ttl = "5s", crate = #value);
            assert_eq!(wrong(args), ["`crate` must be a path"], "{value}");
        }
    }

    #[test]
    fn reports_every_mistake_at_once() {
        let args = quote! {
            kye = "a:<idd>", ttl = "5", wait = 3, lease = 5, crate = 6, renew = 7, retries = 8
        };
        assert_eq!(
            wrong(args),
            [
                "unknown argument `kye`",
                "unknown argument `retries`",
                "no parameter named `idd`",
                "duration `5` has no unit",
                "expected a string, found `3`",
                "`renew` must be `true` or `false`",
                "`lease` must be a name",
                "`crate` must be a path",
            ]
        );
    }
}
