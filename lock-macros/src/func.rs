//! The annotated function, with its body left as tokens.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, PatIdent, Path, PathArguments, Result,
    ReturnType, Signature, Token, Type, TypeParamBound, Visibility, parse_quote_spanned,
};

use crate::errors::message;

pub(crate) struct Func {
    /// Everything before the body, as written.
    pub(crate) head: TokenStream,
    pub(crate) sig: Signature,
    /// The body, including its braces.
    pub(crate) body: Group,
}

/// The output of the future that the function returns.
pub(crate) enum Output {
    /// The return type of an `async fn`.
    Async(Type),
    /// The `R` of a function that returns `Pin<Box<dyn Future<Output = R>>>`.
    Boxed(Type),
}

/// A name that a parameter binds; a pattern can bind several names.
pub(crate) struct Param {
    pub(crate) ident: Ident,
    /// The `#[cfg]` attributes of the parameter.
    pub(crate) cfgs: Vec<Attribute>,
}

impl Func {
    pub(crate) fn parse(item: TokenStream) -> Result<Self> {
        let mut tokens: Vec<TokenTree> = item.into_iter().collect();
        let body = tokens.pop();
        let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == "fn");
        let no_fn = !tokens.iter().any(is_fn);
        let head = TokenStream::from_iter(tokens);
        let sig = signature.parse2(head.clone());
        let sig = sig.map_err(|error| if no_fn { not_a_function() } else { error })?;
        let Some(TokenTree::Group(body)) = body else {
            let wrong = format_args!("`{}` has no body to lock", sig.ident.unraw());
            let help = "put `#[redis_lock]` on the implementations of this method";
            return Err(Error::new(sig.ident.span(), message(wrong, help)));
        };
        Ok(Self { head, sig, body })
    }

    pub(crate) fn output(&self) -> Result<Output> {
        let output = match &self.sig.output {
            ReturnType::Default => parse_quote_spanned!(Span::mixed_site()=> ()),
            ReturnType::Type(_, ty) => (**ty).clone(),
        };
        if self.sig.asyncness.is_some() {
            return Ok(Output::Async(output));
        }
        if let Some(output) = boxed_output(&output) {
            return Ok(Output::Boxed(output.clone()));
        }
        let span = self.sig.constness.map_or(self.sig.fn_token.span, |token| token.span);
        let help = "write `async fn`; \
                    if another attribute removes `async`, put `#[redis_lock]` above it";
        Err(Error::new(span, message("only an `async fn` can be locked", help)))
    }

    /// Returns all names that the parameters bind, in the order of the signature.
    pub(crate) fn params(&self) -> Vec<Param> {
        let mut params = Vec::new();
        for input in &self.sig.inputs {
            let mut names = Names(Vec::new());
            let attrs = match input {
                FnArg::Receiver(receiver) => {
                    names.0.push(receiver.self_token.into());
                    &receiver.attrs
                }
                FnArg::Typed(param) => {
                    names.visit_pat_mut(&mut param.pat.clone());
                    &param.attrs
                }
            };
            let cfgs = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
            let cfgs: Vec<_> = cfgs.cloned().collect();
            params.extend(names.0.into_iter().map(|ident| Param { ident, cfgs: cfgs.clone() }));
        }
        params
    }

    /// Returns whether the body contains an identifier with the name of `param`.
    pub(crate) fn body_names(&self, param: &Param) -> bool {
        names(self.body.stream(), &param.ident.unraw())
    }
}

fn signature(input: ParseStream<'_>) -> Result<Signature> {
    input.call(Attribute::parse_outer)?;
    input.parse::<Visibility>()?;
    input.parse::<Option<Token![default]>>()?;
    input.parse()
}

fn not_a_function() -> Error {
    let help = "put it on each function that must hold the lock";
    Error::new(
        Span::call_site(),
        message("`#[redis_lock]` can only be applied to an `async fn`", help),
    )
}

/// Returns the `R` of `Pin<Box<dyn Future<Output = R> + ...>>`.
fn boxed_output(ty: &Type) -> Option<&Type> {
    let Type::TraitObject(object) = argument(argument(ty, "Pin")?, "Box")? else {
        return None;
    };
    object.bounds.iter().find_map(|bound| match bound {
        TypeParamBound::Trait(bound) => match last_arguments(&bound.path, "Future")?.next()? {
            GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
            _ => None,
        },
        _ => None,
    })
}

/// Returns the `T` of `name<T>`.
fn argument<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(ty) = ty else { return None };
    match last_arguments(&ty.path, name)?.next()? {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

fn last_arguments<'a>(
    path: &'a Path,
    name: &str,
) -> Option<impl Iterator<Item = &'a GenericArgument>> {
    let last = path.segments.last().filter(|last| last.ident == name)?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments.args.iter()),
        _ => None,
    }
}

struct Names(Vec<Ident>);

impl VisitMut for Names {
    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        self.0.push(pat.ident.clone());
        visit_mut::visit_pat_ident_mut(self, pat);
    }
}

fn names(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident.unraw() == *name,
        TokenTree::Group(group) => names(group.stream(), name),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens as _, quote};

    use super::*;

    fn func(item: TokenStream) -> Func {
        Func::parse(item).unwrap()
    }

    fn wrong(result: Result<impl Sized>) -> String {
        let error = result.err().unwrap().to_string();
        error.lines().next().unwrap().to_owned()
    }

    fn params(func: &Func) -> Vec<String> {
        func.params().iter().map(|param| param.ident.to_string()).collect()
    }

    #[test]
    fn keeps_everything_before_the_body_as_head() {
        let func = func(quote! {
            #[doc = "text"]
            pub(crate) async unsafe fn f<'a, T>(&'a self, n: T) -> Result<T, E> where T: Copy { n }
        });
        assert_eq!(func.sig.ident, "f");
        assert_eq!(func.head.into_iter().last().unwrap().to_string(), "Copy");
        assert_eq!(func.body.stream().to_string(), "n");
    }

    #[test]
    fn refuses_a_method_without_a_body() {
        let method = quote!(
            async fn plan(&self, id: u64) -> Result<u64, E>;
        );
        assert_eq!(wrong(Func::parse(method)), "`plan` has no body to lock");
    }

    #[test]
    fn refuses_items_that_are_not_functions() {
        for item in [
            quote!(
                struct S {
                    id: u64,
                }
            ),
            quote!(
                struct S;
            ),
            quote!(impl S { async fn f() {} }),
            quote!(
                mod m {
                    async fn f() {}
                }
            ),
            quote!(
                trait T {
                    async fn f() {}
                }
            ),
            quote!(
                const N: u8 = { 1 };
            ),
            quote!(),
        ] {
            let text = item.to_string();
            assert_eq!(
                wrong(Func::parse(item)),
                "`#[redis_lock]` can only be applied to an `async fn`",
                "{text}"
            );
        }
    }

    #[test]
    fn finds_parameters_in_patterns() {
        let func = func(quote! {
            async fn f(
                mut self: Arc<Self>, (a, [b, ..]): T, Point { x, y: (ref z, _) }: Point,
                Path(id): Path<u64>, mut n: u8, _: u8, whole @ (part,): U, r#type: V,
            ) {}
        });
        let expected = ["self", "a", "b", "x", "z", "id", "n", "whole", "part", "r#type"];
        assert_eq!(params(&func), expected);
    }

    #[test]
    fn gives_cfg_attributes_to_every_name_of_a_parameter() {
        let func = func(quote! {
            async fn f(#[cfg(a)] #[allow(unused)] (x, y): T, #[cfg(b)] #[cfg(c)] z: U, n: V) {}
        });
        let cfgs: Vec<_> = func.params().iter().map(|param| param.cfgs.len()).collect();
        assert_eq!(cfgs, [1, 1, 2, 0]);
        assert_eq!(func.params()[0].cfgs[0].to_token_stream().to_string(), "# [cfg (a)]");
    }

    #[test]
    fn finds_parameters_in_the_body_at_any_depth() {
        let func = func(quote! {
            async fn f(&self, id: u64, r#type: u8, unused: u8, text: u8) {
                println!("{text}", [{ id }]);
                macro_rules! base { () => { self.base } }
                let _ = r#type;
            }
        });
        let params = func.params();
        let named: Vec<_> = params.iter().map(|param| func.body_names(param)).collect();
        assert_eq!(named, [true, true, true, false, false]);
    }

    #[test]
    fn refuses_functions_that_are_not_async() {
        for item in [
            quote!(
                fn f() -> Result<u64, E> {}
            ),
            quote!(
                const fn f() {}
            ),
            quote!(
                fn f() -> impl Future<Output = u8> {}
            ),
            quote!(
                fn f() -> Box<dyn Future<Output = u8>> {}
            ),
            quote!(
                fn f() -> Pin<Box<dyn Iterator<Item = u8>>> {}
            ),
            quote!(
                fn f() -> Pin<Box<u8>> {}
            ),
        ] {
            let text = item.to_string();
            assert_eq!(wrong(func(item).output()), "only an `async fn` can be locked", "{text}");
        }
    }

    #[test]
    fn finds_the_output_of_a_boxed_future() {
        let output = |item| match func(item).output().unwrap() {
            Output::Async(ty) => format!("async {}", ty.to_token_stream()),
            Output::Boxed(ty) => format!("boxed {}", ty.to_token_stream()),
        };
        assert_eq!(
            output(quote!(
                async fn f() {}
            )),
            "async ()"
        );
        assert_eq!(
            output(quote!(
                const async fn f() -> u8 {}
            )),
            "async u8"
        );
        assert_eq!(
            output(quote! {
                fn f<'a>(&'a self) -> ::core::pin::Pin<Box<
                    dyn ::core::future::Future<Output = Result<u8, E>> + ::core::marker::Send + 'a
                >> {}
            }),
            "boxed Result < u8 , E >"
        );
        assert_eq!(
            output(quote!(
                fn f() -> Pin<Box<dyn Send + Future<Output = u8>>> {}
            )),
            "boxed u8"
        );
        assert_eq!(
            output(quote!(
                async fn f() -> Pin<Box<dyn Future<Output = u8>>> {}
            )),
            "async Pin < Box < dyn Future < Output = u8 > > >"
        );
    }
}
