//! Inputs that must not compile, and the messages of the compiler.

use std::env;
use std::io::{self, Write as _};
use std::process::Command;

/// The release of the compiler that the messages are from; other releases word them differently.
const RELEASE: &str = "1.95";

#[test]
fn reports_every_mistake() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("rustc prints its version");
    let version = String::from_utf8_lossy(&version.stdout);
    if !version.starts_with(&format!("rustc {RELEASE}.")) {
        let why = format!("skipped: the messages are those of rustc {RELEASE}, this is {version}");
        // Not with `eprintln!`, which the test harness captures.
        io::stderr().write_all(why.as_bytes()).expect("stderr is writable");
        return;
    }
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}
