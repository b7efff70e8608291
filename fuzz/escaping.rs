#![no_main]
//! Fuzzes the escaping of values in a template with two lists of values.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<&str>, Vec<(&str, &str)>)| properties::escaping(&input.0, &input.1));
