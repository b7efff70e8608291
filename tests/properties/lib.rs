//! What holds for the parsers and for what they read, whatever it is: checked by proptest here, and
//! by the fuzz targets in `fuzz`.

pub mod check;

// The production files, and what they expect at the root of their crate.
use lock_runtime::{Fence, store};

#[path = "../../lock-runtime/src/store/redis/answer.rs"]
mod answer;

#[path = "../../lock-macros/src/args.rs"]
mod args;

#[path = "../../lock-macros/src/duration.rs"]
mod duration;

#[path = "../../lock-macros/src/errors.rs"]
mod errors;

#[path = "../../lock-macros/src/placeholder.rs"]
mod placeholder;

#[path = "../../lock-macros/src/suggest.rs"]
mod suggest;

#[path = "../../lock-macros/src/template.rs"]
mod template;

#[path = "../../lock-macros/src/times.rs"]
#[allow(dead_code, reason = "the ttl is looked at, and nothing but literals")]
#[allow(clippy::large_enum_variant, reason = "spans are larger with their locations")]
mod times;

#[path = "../../lock-runtime/src/store/redis/waiter.rs"]
#[allow(dead_code, reason = "waiters get answers only, no messages")]
mod waiter;
