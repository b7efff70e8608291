//! A short run of the whole program.

use std::process::Command;

#[test]
fn finds_no_violations_in_ten_seconds() {
    let mut torture = Command::new(env!("CARGO_BIN_EXE_torture"));
    let output = torture.args(["--seconds", "10", "--seed", "7"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.starts_with("seed 7, 10 s: ") && text.lines().count() == 1, "{text}");
    for count in ["overlaps", "fenced violations", "lost updates", "orphans"] {
        assert!(text.contains(&format!(", 0 {count},")), "{text}");
    }
    assert!(!text.contains(" 0 faults,") && !text.contains(" 0 grants,"), "{text}");
}
