//! The `#[redis_lock]` attribute.
