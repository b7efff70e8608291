//! What holds for the parsers and for what they read, whatever it is: checked by proptest here, and
//! by the fuzz targets in `fuzz`.

pub mod check;

// The production files, and what they expect at the root of their crate.
use lock_runtime::{Fence, store};

#[path = "../../lock-runtime/src/store/redis/answer.rs"]
mod answer;

#[path = "../../lock-macros/src/errors.rs"]
mod errors;

#[path = "../../lock-macros/src/placeholder.rs"]
#[allow(dead_code, reason = "fields and formats are for generated code")]
mod placeholder;

#[path = "../../lock-macros/src/suggest.rs"]
mod suggest;

#[path = "../../lock-macros/src/template.rs"]
mod template;

#[path = "../../lock-runtime/src/store/redis/waiter.rs"]
#[allow(dead_code, reason = "waiters get answers only, no messages")]
mod waiter;
