#![no_main]
//! Any bytes as a reply of Redis.

use libfuzzer_sys::fuzz_target;
use properties::check;

fuzz_target!(|bytes: &[u8]| check::reply(bytes));
