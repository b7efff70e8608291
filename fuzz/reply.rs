#![no_main]
//! Fuzzes the parser of Redis replies with arbitrary bytes.

use libfuzzer_sys::fuzz_target;
use properties::check;

fuzz_target!(|bytes: &[u8]| check::reply(bytes));
