//! The queue on Redis, and a majority of independent servers: what they do, and what follows from it for
//! their clients.

mod bugs;
mod client;
mod protocol;
mod random;
mod redlock;
mod reference;
mod scripts;
mod steps;
mod world;

// The production files, and what they expect at the root of their crate.
use lock_runtime::Fence;

mod error {
    pub(crate) use lock_runtime::LossCause;
}

#[path = "../../lock-runtime/src/lease.rs"]
#[expect(dead_code, reason = "the model needs no names and no statistics")]
mod lease;

#[path = "../../lock-runtime/src/store/redlock/round.rs"]
mod round;

#[path = "../../lock-runtime/src/store/redis/waiter.rs"]
mod waiter;
