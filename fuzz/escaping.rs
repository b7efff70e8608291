#![no_main]
//! Any two lists of values in a template.

use libfuzzer_sys::fuzz_target;
use properties::check;

fuzz_target!(|input: (Vec<&str>, Vec<(&str, &str)>)| check::escaping(&input.0, &input.1));
