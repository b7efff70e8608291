//! Inputs that must not compile, and the messages of the compiler.

use std::process::Command;
use std::{env, io};

/// The release of the compiler that the messages are from; other releases word them differently.
const RELEASE: &str = "1.95";

#[test]
fn reports_every_mistake() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    if !version.starts_with(&format!("rustc {RELEASE}.")) {
        let why = format!("skipped: the messages are those of rustc {RELEASE}, this is {version}");
        // Not with `eprintln!`, which the test harness captures.
        io::Write::write_all(&mut io::stderr(), why.as_bytes()).unwrap();
        return;
    }
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
