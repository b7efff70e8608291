//! A short run of the program.

use std::process::Command;

#[test]
fn locks_keep_their_promises_for_ten_seconds() {
    let mut torture = Command::new(env!("CARGO_BIN_EXE_torture"));
    let output = torture.args(["--seconds", "10", "--seed", "7"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.starts_with("seed 7, 10 s: ") && text.lines().count() == 1, "{text}");
    for nothing in ["overlaps", "fenced violations", "lost updates", "orphans"] {
        assert!(text.contains(&format!(", 0 {nothing},")), "{text}");
    }
    assert!(!text.contains(" 0 faults,") && !text.contains(" 0 grants,"), "{text}");
}
