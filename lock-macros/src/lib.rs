//! The `#[redis_lock]` attribute.
//!
//! An implementation detail of `lock-runtime`, which re-exports the attribute.

mod args;
mod duration;
mod errors;
mod expand;
mod func;
mod model;
mod placeholder;
#[cfg(test)]
mod properties;
mod suggest;
mod template;
mod times;

use proc_macro2::TokenStream;
use syn::parse2;

use crate::args::Args;
use crate::func::Func;
use crate::model::Lock;

/// Runs an `async fn` under a distributed lock.
///
/// The function takes the lock, runs its body and releases the lock, also after an
/// early `return`, a `?`, a panic, or when the caller goes away. The body never
/// runs without the lock: when it cannot be taken, the function returns an error.
///
/// ```text
/// #[redis_lock(key = "order:<id>", ttl = "30s")]
/// async fn pay(id: u64) -> Result<Receipt, AppError> {
///     // at most one process runs this for a given id
/// }
/// ```
///
/// # Arguments
///
/// | argument | meaning | without it |
/// | --- | --- | --- |
/// | `key` | what is locked: a [template](#keys), or an expression that gives a key | required |
/// | `ttl` | how long the lock lives if nobody renews it | required |
/// | `wait` | how long to wait while somebody else holds it; `"0s"` tries once, `"forever"` has no limit | try once |
/// | `renew` | `false`: the lock ends after its `ttl`, and a body that still runs is stopped | `true` |
/// | `max_hold` | when to stop a body that is still running, and give the lock up | no limit |
/// | `min_hold` | how long to keep the key at least, after a quick body | no limit |
/// | `or_else` | a path or closure from the lock's error to [what the function returns](#failures) | a `Result` |
/// | `lease` | a name for the [lease](#the-lease) in the body | not bound |
/// | `manager` | an expression for the manager to use, such as `self.locks` | the installed one |
/// | `crate` | the path of the runtime crate, where it has another name | `::lock_runtime` |
///
/// # Keys
///
/// `<id>` in a template stands for a parameter, `<order.id>` or `<pair.0>` for a
/// field of one, `<self.shard>` for a field of the receiver. Names that a pattern
/// binds, as in `Path(id): Path<u64>`, are parameters too. `<n:04>` and `<n:x>` are
/// formatted as `{:04}` and `{:x}` would be; without a format, the value must be
/// `Display`. `<<` and `>>` are literal, and so are braces: they mark the hash tag
/// of a key in Redis Cluster.
///
/// ```text
/// #[redis_lock(key = "{tenant:<tenant>}:slot:<day:02>:<self.shard>", ttl = "5s")]
/// async fn book(&self, tenant: &str, day: u8) -> Result<(), AppError> { ... }
/// ```
///
/// Values are escaped (`:`, `{`, `}`, `%` and control characters), so that two lists
/// of arguments never give the same key; `<path:raw>` is not. For the same reason,
/// something that is escaped in values, such as `:`, has to stand between two of
/// them. An empty value is an error. For other keys, `key` takes an expression:
///
/// ```text
/// #[redis_lock(key = format!("report:{}", day.iso_week()), ttl = "5s")]
/// async fn report(day: Date) -> Result<(), AppError> { ... }
/// ```
///
/// # Durations
///
/// A literal has whole numbers with the units `h`, `m`, `s` and `ms`, from large to
/// small, and is at most a day: `"500ms"`, `"30s"`, `"1m30s"`. The shortest `ttl` is
/// `"250ms"`, or `"100ms"` with `renew = false`. An expression has the type
/// [`Duration`](std::time::Duration).
///
/// ```text
/// #[redis_lock(key = "import", ttl = LEASE, wait = self.patience, max_hold = "10m")]
/// async fn import(&self) -> Result<(), AppError> { ... }
/// ```
///
/// # Failures
///
/// A function that returns a `Result`, under any alias, reports a lock that it could
/// not take, or lost, through the `From` conversion of its error type. For anything
/// else, `or_else` says what is returned:
///
/// ```text
/// #[redis_lock(key = "cleanup", ttl = "30s", or_else = |_| Cleaned::ByAnother)]
/// async fn clean_up() -> Cleaned { ... }
/// ```
///
/// # The lease
///
/// `lease = held` binds a handle of the lock in the body: the time that remains, and
/// whether it was lost.
///
/// ```text
/// #[redis_lock(key = "stock:<sku>", ttl = "5s", lease = held)]
/// async fn count(shelf: &Shelf, sku: &str) -> Result<u32, AppError> {
///     shelf.count_while(sku, || !held.is_lost())
/// }
/// ```
///
/// # Other attributes
///
/// Attributes expand from the top, and the lowest one is the outermost at run time.
/// `#[redis_lock]` needs the function as it is written:
///
/// - above an attribute that takes `async` away, such as `#[tokio::test]`;
/// - below a route attribute, such as `#[post("/orders")]`, or above it;
/// - below `#[async_trait]`, on the methods of the implementation. A parameter that
///   is a pattern cannot be named by the key there.
///
/// With `#[tracing::instrument]` above it, the span covers the body only; below it,
/// the span also covers waiting and releasing.
///
/// # Limits
///
/// - Parameters that the body names are dropped before the release. Those that it
///   never names, such as `_permit`, live until the function returns.
/// - A function that calls itself with the same key meets its own lock, which is an
///   error at once.
/// - `or_else` is evaluated after the parameters were moved into the body: it can use
///   those that are `Copy` or that the body does not name.
/// - A type has one key when it has one text: `"01"` and `"1"` are two strings, and
///   two locks.
#[proc_macro_attribute]
pub fn redis_lock(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand(args.into(), &item.into()).into()
}

fn expand(args: TokenStream, item: &TokenStream) -> TokenStream {
    let func = match Func::parse(item.clone()) {
        Ok(func) => func,
        Err(error) => return expand::rejected(item, error),
    };
    let args: Args = match parse2(args) {
        Ok(args) => args,
        Err(error) => return expand::rejected(item, error),
    };
    match (Lock::check(&args, &func), model::lease(&args), model::runtime(&args)) {
        (Ok(lock), ..) => expand::locked(&lock, &func),
        (Err(error), Ok(Some(lease)), Ok(runtime)) => {
            expand::rejected(&expand::unlocked(&func, &lease, &runtime), error)
        }
        (Err(error), ..) => expand::rejected(item, error),
    }
}
