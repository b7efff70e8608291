#![doc = include_str!("../README.md")]
//!
//! ## Without the attribute
//!
//! ```
//! use std::time::Duration;
//! use lock_runtime::{LockError, LockManager};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LockError> {
//! let locks = LockManager::in_memory();
//! let guard = locks.lock("stock:7").ttl(Duration::from_secs(10)).wait(Duration::from_secs(2)).await?;
//! let left = guard.run(async { 41 + 1 }).await?; // stopped if the lease is lost
//! guard.release().await?; // or drop it, to release in the background
//! # assert_eq!(left, 42);
//! # Ok(())
//! # }
//! ```

mod acquire;
mod clock;
mod error;
pub mod fence;
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
mod run;
pub mod store;
mod token;
mod watchdog;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

#[cfg(feature = "macros")]
pub use lock_macros::redis_lock;

pub use error::{LockError, LossCause, Step};
pub use fence::Fence;
pub use guard::{Lease, LockGuard};
pub use key::Key;
pub use manager::{Builder, Endpoint, LockManager};
pub use outcome::Outcome;
pub use request::LockRequest;
pub use token::Token;

/// The examples of the project's README, which are compiled with the documentation's tests.
#[cfg(all(doctest, feature = "macros"))]
#[doc = include_str!("../../README.md")]
struct Readme;
