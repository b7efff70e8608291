//! Helpers of the tests of this package.

mod capture;
mod commands;
mod group;
mod keys;
pub(crate) mod logged;
mod process;
mod setup;
mod time;

pub(crate) use capture::{Capture, Event};
pub(crate) use commands::{
    grants_in_order, hold_times, is_acquire, is_grant, is_release, is_renewal, is_script, tokens,
};
pub(crate) use group::{Group, durable};
pub(crate) use keys::{
    FENCE_KEY, count_keys, occupy, pttl, queued_tokens, wait_for_waiters, wait_until_absent,
    wait_until_renewed,
};
pub(crate) use process::{in_own_process, process_status, spawn_holder};
pub(crate) use setup::{clients, setup, warm_up};
pub(crate) use time::{AT_ONCE, SOON, millis, ms};
