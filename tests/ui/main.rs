//! Inputs that must not compile, and what the compiler says about them.

use std::env;
use std::io::{self, Write as _};
use std::process::Command;

/// The messages are those of one release of the compiler; others word and lay them out differently.
const RELEASE: &str = "1.95";

#[test]
fn every_mistake_is_told_well() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("rustc tells its version");
    let version = String::from_utf8_lossy(&version.stdout);
    if !version.starts_with(&format!("rustc {RELEASE}.")) {
        let why = format!("skipped: the messages are those of rustc {RELEASE}, this is {version}");
        // Not with a macro, whose output the test harness keeps for itself.
        io::stderr().write_all(why.as_bytes()).expect("stderr can be written to");
        return;
    }
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}
