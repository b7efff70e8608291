//! The expansion of the model to tokens; the only file that quotes code.
//!
//! Generated tokens have `mixed_site` spans, so that the body does not see the locals of the
//! expansion, and lints do not mistake generated code for the user's.

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Error, Ident, Path, ReturnType, Token, Type, TypeInfer};

use crate::func::{Func, Output};
use crate::model::{Key, Lock};
use crate::placeholder::Value;
use crate::template::Part;
use crate::times::{Time, Times, Wait};

// async fn pay(id: u64) -> Result<Receipt, AppError> { BODY }
//
// async fn pay(id: u64) -> Result<Receipt, AppError> {{
//     let request = request("order:<id>", KeyParts::new()….build()).ttl(…);
//     let held = lease(&request);
//     let body = pin!(Some(async move { …BODY }));
//     run(request, outcome(), body).await
// }}
//
// The outer braces are the user's, because an item that ends in generated code gets no lints, not
// even for being unused. The inner braces are generated, because the user's edition could keep
// temporaries of the last expression longer than `body`.
pub(crate) fn locked(lock: &Lock, func: &Func) -> TokenStream {
    let site = Span::mixed_site();
    let Lock { lease, runtime, .. } = lock;
    let request = request(lock);
    let lease = lease
        .as_ref()
        .map(|lease| quote_spanned!(site=> let #lease = #runtime::__private::lease(&request);));
    let body = body(lock, func);
    let run = run(lock, func);
    let locked = quote_spanned! {site=>
        {
            let request = #request;
            #lease
            let body = ::core::pin::pin!(::core::option::Option::Some(#body));
            #run
        }
    };
    let locked = match &lock.output {
        Output::Async(_) => locked,
        Output::Boxed(_) => quote_spanned!(site=> ::std::boxed::Box::pin(async move #locked)),
    };
    let mut braces = Group::new(Delimiter::Brace, locked);
    braces.set_span(func.body.span());
    let head = &func.head;
    quote_spanned!(site=> #head #braces)
}

/// Appends an error to an item, which is kept so that its uses show no further errors.
pub(crate) fn rejected(item: &TokenStream, error: Error) -> TokenStream {
    let error = error.into_compile_error();
    quote_spanned!(Span::mixed_site()=> #item #error)
}

/// Generates the function without the lock, but with the name of the lease.
pub(crate) fn unlocked(func: &Func, lease: &Ident, runtime: &Path) -> TokenStream {
    let Func { head, body, .. } = func;
    quote_spanned! {Span::mixed_site()=>
        #head {
            match ::core::option::Option::None {
                ::core::option::Option::Some(request) => {
                    let #lease = #runtime::__private::lease(request);
                    #body
                }
                ::core::option::Option::None => loop {},
            }
        }
    }
}

fn request(lock: &Lock) -> TokenStream {
    let site = Span::mixed_site();
    let Lock { key, times, manager, runtime, .. } = lock;
    let (template, key) = match key {
        Key::Template(lit, parts) => {
            let parts = parts.iter().map(|part| self::part(part, runtime));
            let key = quote_spanned! {site=>
                #runtime::__private::KeyParts::new()#(#parts)*.build()
            };
            (lit.to_token_stream(), key)
        }
        Key::Expr(expr) => (
            quote_spanned!(site=> ::core::stringify!(#expr)),
            quote_spanned!(site=> #runtime::__private::key(#expr)),
        ),
    };
    let times = self::times(times);
    let manager = manager.as_ref().map(|manager| {
        let at_manager = site.located_at(manager.span());
        quote_spanned!(at_manager=> &(#manager),)
    });
    let request = Ident::new(if manager.is_some() { "request_on" } else { "request" }, site);
    quote_spanned!(site=> #runtime::__private::#request(#manager #template, #key)#times)
}

fn part(part: &Part, runtime: &Path) -> TokenStream {
    let site = Span::mixed_site();
    match part {
        Part::Text(text) => quote_spanned!(site=> .text(#text)),
        Part::Value(Value { name, param, fields, format, raw }) => {
            let at_key = site.located_at(param.span());
            let mut value = quote_spanned!(at_key=> #param #(.#fields)*);
            if format.contains('0') && format.ends_with(|c: char| c.is_ascii_digit()) {
                value = quote_spanned!(at_key=> #runtime::__private::number(&#value));
            }
            let format = if format.is_empty() { "{}".to_owned() } else { format!("{{:{format}}}") };
            let method = Ident::new(if *raw { "raw" } else { "value" }, site);
            quote_spanned!(site=> .#method(#name, ::core::format_args!(#format, #value)))
        }
    }
}

fn times(times: &Times) -> TokenStream {
    let site = Span::mixed_site();
    let Times { ttl, wait, renew, max_hold, min_hold } = times;
    let ttl = time(ttl);
    let wait = wait.as_ref().map(|wait| match wait {
        Wait::Limit(limit) => {
            let limit = time(limit);
            quote_spanned!(site=> .wait(#limit))
        }
        Wait::Forever => quote_spanned!(site=> .wait_forever()),
    });
    let renew = (!renew).then(|| quote_spanned!(site=> .renew(false)));
    let max_hold = max_hold.as_ref().map(time).map(|time| quote_spanned!(site=> .max_hold(#time)));
    let min_hold = min_hold.as_ref().map(time).map(|time| quote_spanned!(site=> .min_hold(#time)));
    quote_spanned!(site=> .ttl(#ttl)#wait #renew #max_hold #min_hold)
}

fn time(time: &Time) -> TokenStream {
    match time {
        Time::Literal(duration) => {
            let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            quote_spanned!(Span::mixed_site()=> ::core::time::Duration::from_millis(#millis))
        }
        Time::Expr(expr) => expr.to_token_stream(),
    }
}

// async move {
//     if let Some(never) = None::<Result<Receipt, AppError>> { let _ = &id; return never; }
//     #[allow()] { BODY }
// }
//
// The dead branch gives the compiler the type of the body, so that mismatches point into the body.
// It mentions the parameters that the body names, so that the body owns them whole: they are
// dropped before the release, and no assignment to a field is reported as never read.
fn body(lock: &Lock, func: &Func) -> TokenStream {
    let site = Span::mixed_site();
    let mentions = func.params().into_iter().filter(|param| func.body_names(param)).map(|param| {
        let (cfgs, ident) = (param.cfgs, param.ident);
        quote_spanned!(site=> #(#cfgs)* let _ = &#ident;)
    });
    let body = &func.body;
    // The braces are the user's, because their edition decides when temporaries are dropped. The
    // empty `allow` silences `unused_braces`.
    let (output, body) = match &lock.output {
        Output::Async(output) => (output, quote_spanned!(site=> #[allow()] #body)),
        // The closure keeps the meaning of `return`.
        Output::Boxed(output) => {
            let mut future = func.sig.output.clone();
            Infer.visit_return_type_mut(&mut future);
            (output, quote_spanned!(site=> (move || #future #body)().await))
        }
    };
    let mut output = output.clone();
    Infer.visit_type_mut(&mut output);
    quote_spanned! {site=>
        async move {
            if let ::core::option::Option::Some(never) = ::core::option::Option::None::<#output> {
                #(#mentions)*
                return never;
            }
            #body
        }
    }
}

/// Replaces types that cannot be written in a function body, `impl Trait` and `!`, with `_`.
struct Infer;

impl VisitMut for Infer {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::ImplTrait(_) | Type::Never(_) = ty {
            let span = Span::mixed_site().located_at(ty.span());
            *ty = Type::Infer(TypeInfer { attrs: Vec::new(), underscore_token: Token![_](span) });
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }
}

fn run(lock: &Lock, func: &Func) -> TokenStream {
    let site = Span::mixed_site();
    let runtime = &lock.runtime;
    let on_failure = match &lock.or_else {
        Some(or_else) => quote_spanned! {site=>
            #runtime::__private::or_else(&body, #or_else, {
                use #runtime::__private::AnyOutput as _;
                #runtime::__private::Probe::of(&body).is_failure()
            })
        },
        None => outcome(func, runtime),
    };
    quote_spanned!(site=> #runtime::__private::run(request, #on_failure, body).await)
}

/// Generates the only call that requires `Outcome`, so that its absence is a single error.
///
/// The call has the span of the return type, which the error underlines.
fn outcome(func: &Func, runtime: &Path) -> TokenStream {
    let site = Span::mixed_site();
    let output = match &func.sig.output {
        ReturnType::Default => func.sig.ident.to_token_stream(),
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    };
    let mut spans = output.into_iter().map(|token| site.located_at(token.span()));
    let first = spans.next().unwrap_or(site);
    let last = spans.last().unwrap_or(first);
    let runtime = runtime.to_token_stream().into_iter().map(|mut token| {
        token.set_span(token.span().located_at(first));
        token
    });
    quote_spanned!(last=> #(#runtime)*::__private::outcome())
}
