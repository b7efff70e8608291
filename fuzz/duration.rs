#![no_main]
//! Any text as a duration.

use libfuzzer_sys::fuzz_target;
use properties::check;

fuzz_target!(|text: &str| check::duration(text));
