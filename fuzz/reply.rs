#![no_main]
//! Any bytes as a reply of Redis.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| properties::reply(bytes));
