//! stub docs

mod acquire;
mod error;
mod guard;
mod held;
mod holding;
#[cfg(any(feature = "axum", feature = "actix-web"))]
mod http;
mod key;
mod lease;
mod manager;
mod outcome;
mod request;
pub mod store;
mod token;
mod watchdog;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

#[cfg(feature = "macros")]
pub use lock_macros::redis_lock;

pub use error::{LockError, LossCause, Step};
pub use guard::{Lease, LockGuard};
pub use key::Key;
pub use manager::{Builder, Endpoint, LockManager};
pub use outcome::Outcome;
pub use request::LockRequest;
pub use token::Token;
