#![no_main]
//! Any text as a template.

use libfuzzer_sys::fuzz_target;
use properties::check;

fuzz_target!(|text: &str| check::template(text));
