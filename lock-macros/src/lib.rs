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
/// The function acquires the lock, runs its body and releases the lock, even after an early
/// `return`, a `?` or a panic, and when the caller drops its future. The body never runs without
/// the lock: if the lock cannot be acquired, the function returns an error.
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
/// | argument | meaning | default |
/// | --- | --- | --- |
/// | `key` | a template such as `"order:<id>"`, or an expression that gives a key | required |
/// | `ttl` | how long the lease lasts without renewal: `"500ms"`, `"30s"`, `"1m30s"`, `"2h"`, or an expression of type `Duration`; 250 ms (100 ms with `renew = false`) to 24 h | required |
/// | `wait` | how long to wait while another caller holds the lock; `"forever"` waits without limit | try once |
/// | `renew` | whether the lease is renewed while the body runs | `true` |
/// | `max_hold` | how long the lock is held at most; then the body is stopped | no limit |
/// | `min_hold` | how long the key is kept at least, even after a quick body; at most the ttl | none |
/// | `or_else` | a path or closure that turns the `LockError` into the function's return value | the return type's own conversion |
/// | `lease` | a name for the live lease in the body: `fence()`, `remaining()`, `is_lost()`, `lost()` | none |
/// | `manager` | the `LockManager` to use, such as `self.locks` | the installed one |
/// | `crate` | the path of `lock_runtime` if it has another name | `::lock_runtime` |
///
/// # Keys
///
/// In a template, `<id>` stands for a parameter, `<order.id>` or `<pair.0>` for a field of a
/// parameter, and `<self.shard>` for a field of the receiver. Names that a pattern binds, as in
/// `Path(id): Path<u64>`, are parameters, too. `<n:04>` and `<n:x>` format the value like `{:04}`
/// and `{:x}`; without a format, the value must implement `Display`. `<<` and `>>` are literal
/// angle brackets. Braces are literal, too: they mark the hash tag of a key in Redis Cluster.
///
/// ```text
/// #[redis_lock(key = "{tenant:<tenant>}:slot:<day:02>:<self.shard>", ttl = "5s")]
/// async fn book(&self, tenant: &str, day: u8) -> Result<(), AppError> { ... }
/// ```
///
/// Values are escaped (`:`, `{`, `}`, `%` and control characters), so that different lists of
/// arguments never give the same key; `<path:raw>` is inserted without escaping. For the same
/// reason, two values need a `:`, a brace or a control character between them. An empty value is an
/// error. For keys that no template can describe, `key` takes an expression:
///
/// ```text
/// #[redis_lock(key = format!("report:{}", day.iso_week()), ttl = "5s")]
/// async fn report(day: Date) -> Result<(), AppError> { ... }
/// ```
///
/// # Durations
///
/// A literal consists of whole numbers with the units `h`, `m`, `s` and `ms`, from large to small,
/// and is at most a day: `"500ms"`, `"30s"`, `"1m30s"`. The shortest `ttl` is `"250ms"`, or
/// `"100ms"` with `renew = false`. An expression has the type [`Duration`](std::time::Duration).
///
/// ```text
/// #[redis_lock(key = "import", ttl = LEASE, wait = self.patience, max_hold = "10m")]
/// async fn import(&self) -> Result<(), AppError> { ... }
/// ```
///
/// With `wait = "0s"`, the function tries once, as it does without `wait`. With `renew = false`,
/// the lock ends after its `ttl`, and a body that is still running is stopped.
///
/// # Failures
///
/// A function that returns a `Result`, under any alias, reports a lock that it could not acquire,
/// or that it lost, through the `From<LockError>` conversion of its error type. With the features
/// `axum` and `actix-web` of the runtime, a function can return their responses, too. For any other
/// type, `or_else` gives the value to return:
///
/// ```text
/// #[redis_lock(key = "cleanup", ttl = "30s", or_else = |_| Cleaned::ByAnother)]
/// async fn clean_up() -> Cleaned { ... }
/// ```
///
/// # The lease
///
/// `lease = held` binds a handle to the lease in the body, for example to check whether the lease
/// was lost:
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
/// Attributes expand from top to bottom, and the lowest attribute is outermost at run time.
/// `#[redis_lock]` needs the function as written. It goes
///
/// - above an attribute that removes `async`, such as `#[tokio::test]`;
/// - below or above a route attribute, such as `#[post("/orders")]`;
/// - below `#[async_trait]`, on the methods of the implementation. There, the key cannot name a
///   parameter that is a pattern.
///
/// If `#[tracing::instrument]` stands above `#[redis_lock]`, its span covers only the body; if it
/// stands below, the span also covers waiting and releasing.
///
/// # Limits
///
/// - Parameters that the body names are dropped before the release. Parameters that it never names,
///   such as `_permit`, live until the function returns.
/// - A function that calls itself with the same key finds its own lock held, which is an error at
///   once.
/// - `or_else` is evaluated after the parameters were moved into the body: it can use parameters
///   that are `Copy` or that the body does not name.
/// - Values are compared as text: `"01"` and `"1"` are two different strings, and two locks.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Returns the lines of the table of arguments.
    fn table(text: &str) -> Vec<&str> {
        text.lines()
            .map(|line| line.trim_start_matches("/// "))
            .skip_while(|line| !line.starts_with("| argument |"))
            .take_while(|line| line.starts_with('|'))
            .collect()
    }

    #[test]
    fn lists_arguments_as_the_readmes_do() {
        let expected = table(include_str!("lib.rs"));
        assert_eq!(expected.len(), 12);
        for readme in ["../README.md", "../lock-runtime/README.md"] {
            // A packaged crate comes without them.
            if let Ok(text) = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(readme))
            {
                assert_eq!(table(&text), expected, "{readme}");
            }
        }
    }
}
