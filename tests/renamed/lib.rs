//! An in-house crate that re-exports the runtime as `locks`.
//!
//! As a library, it is built with documentation and without `cfg(test)`.

#![deny(warnings, missing_docs)]

pub use locks::{self, LockError, redis_lock};

/// Has the path of the runtime as an argument.
///
/// # Errors
///
/// If the lock fails.
#[locks::redis_lock(key = "re:<id>", ttl = "5s", crate = locks)]
pub async fn renamed(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

/// Takes the lock.
/// Second line.
///
/// # Errors
///
/// If the lock fails.
#[redis_lock(key = "doc:<id>", ttl = "5s", crate = ::locks)]
pub async fn documented(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

struct Level {
    id: u64,
    level: u64,
}

/// Has fields under `#[cfg]` in the body.
///
/// # Errors
///
/// If the lock fails.
#[redis_lock(key = "lvl:<id>", ttl = "5s", crate = locks)]
pub async fn level(id: u64) -> Result<u64, LockError> {
    let l = Level {
        id,
        #[cfg(test)]
        level: 1,
        #[cfg(not(test))]
        level: 2,
    };
    Ok(l.id + l.level)
}

/// Has parameters under `#[cfg]`.
///
/// # Errors
///
/// If the lock fails.
#[redis_lock(key = "part:<id>", ttl = "5s", crate = locks)]
pub async fn part(
    id: u64,
    #[cfg(not(test))] extra: u64,
    #[cfg(test)] text: &str,
) -> Result<u64, LockError> {
    #[cfg(test)]
    let extra = text.len() as u64;
    Ok(id + extra)
}
