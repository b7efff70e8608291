#![no_main]
//! Any two lists of values in a template.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<&str>, Vec<(&str, &str)>)| properties::escaping(&input.0, &input.1));
