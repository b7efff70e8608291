//! Tests and holders in processes of their own.

use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use harness::Child;

const IN_OWN_PROCESS: &str = "TEST_IN_OWN_PROCESS";

/// Runs the test `name` in a process of its own. Returns true in that process, and false in the
/// first one once the test has passed.
///
/// For tests of what all tests of a process share: the installed manager, the subscriber of events,
/// memory, processor time.
pub(crate) async fn in_own_process(name: &str) -> bool {
    if env::var_os(IN_OWN_PROCESS).is_some() {
        return true;
    }
    let child = Child::test(name, &[(IN_OWN_PROCESS, "1")]);
    child.line_matching("test result: ok. 1 passed", Duration::from_secs(60)).await;
    false
}

/// Starts the program `holder`; `holder.rs` documents its options.
pub(crate) fn spawn_holder(url: &str, key: &str, options: &[String]) -> Child {
    Child::spawn(Command::new(env!("CARGO_BIN_EXE_holder")).args([url, key]).args(options))
}

/// Returns a figure of `/proc/self/status`, in kilobytes or threads, or `None` without that file.
pub(crate) fn process_status(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
