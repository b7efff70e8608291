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
mod error;
pub mod fence;
mod guard;
#[cfg(any(feature = "axum", feature = "actix-web"))]
mod http;
mod key;
mod lease;
mod manager;
mod outcome;
mod reentry;
mod request;
mod run;
pub mod store;
mod sync;
mod token;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// What the model and the fuzzers of this repository need. Not part of the public interface.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::store::redis::reply::{Acquisition, NodeEpoch};
    pub use crate::sync::Jitter;

    /// Reads the reply of a script that acquires a lock.
    pub fn read_acquisition(reply: &redis::Value) -> Result<Acquisition, crate::store::StoreError> {
        Ok(Acquisition::read(reply)?)
    }

    /// Reads the reply of a script that renews or releases a lock.
    pub fn read_owned(
        reply: &redis::Value,
    ) -> Result<crate::store::Owned, crate::store::StoreError> {
        Ok(crate::store::redis::reply::owned(reply)?)
    }

    pub mod lease {
        pub use crate::lease::state::{Action, Event, LeaseState};
        pub use crate::lease::terms::{Terms, validity};
    }
    pub mod quorum {
        pub use crate::store::redis::redlock::quorum::{Action, Event, Round, quorum};
    }
    pub mod scripts {
        pub use crate::store::redis::leases::RENEW;
        pub use crate::store::redis::queue::lua::{ACQUIRE, RELEASE};
    }
    pub mod waiter {
        pub use crate::store::redis::queue::waiter::{Message, Waiter};
        pub use crate::store::redis::reply::Queued;
    }
}

#[cfg(feature = "macros")]
pub use lock_macros::redis_lock;

pub use error::{LockError, LossCause, Step};
pub use fence::Fence;
pub use guard::LockGuard;
pub use key::Key;
pub use lease::Lease;
pub use manager::{Builder, Endpoint, LockManager};
pub use outcome::Outcome;
pub use request::LockRequest;
pub use token::Token;
