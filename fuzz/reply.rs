#![no_main]
//! Fuzzes the parser of Redis replies with arbitrary bytes.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| properties::reply(bytes));
