#![no_main]
//! Fuzzes the escaping of values in a template with two lists of values.

use libfuzzer_sys::fuzz_target;
use properties::check;

fuzz_target!(|input: (Vec<&str>, Vec<(&str, &str)>)| check::escaping(&input.0, &input.1));
