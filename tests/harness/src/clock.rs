//! A wall clock that a test can set.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

const SETTING: &str = "ahead";

/// The wall clock of some processes, which jumps when the test sets it.
///
/// Monotonic clocks are unaffected, as when the clock of a machine is set.
#[derive(Debug)]
pub struct Clock(TempDir);

impl Clock {
    /// Returns a clock that shows the real time.
    ///
    /// # Panics
    ///
    /// If `faketime` is not installed.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it may panic")]
    pub fn new() -> Self {
        LazyLock::force(&LIBRARY);
        let clock = Self(TempDir::with_prefix("clock-").expect("a folder can be created"));
        clock.set(0);
        clock
    }

    /// Makes `command` read this clock.
    pub fn apply_to(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &*LIBRARY)
            .env("FAKETIME_TIMESTAMP_FILE", self.0.path().join(SETTING))
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    /// Sets the clock this many seconds ahead of the real time, or behind it if negative.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn set(&self, ahead: i64) {
        static SETTINGS: AtomicU64 = AtomicU64::new(1);
        // Atomically: the processes read the file each time they read the clock.
        let new = self.0.path().join("new");
        fs::write(&new, format!("{ahead:+}")).expect("the folder can be written to");
        // `faketime` ignores a file with the same time of modification, which has a coarse clock.
        let unique = Duration::from_secs(SETTINGS.fetch_add(1, Ordering::Relaxed));
        let file = File::options().write(true).open(&new).expect("the file was written");
        file.set_modified(SystemTime::UNIX_EPOCH + unique).expect("its times can be set");
        fs::rename(new, self.0.path().join(SETTING)).expect("a file can be renamed");
    }
}

/// The library that `faketime` preloads to change the time that a process sees.
static LIBRARY: LazyLock<OsString> = LazyLock::new(|| {
    let mut faketime = Command::new("faketime");
    let output = faketime.args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"]).output();
    let mut path = output.expect("cannot run `faketime` (Debian: `apt install faketime`)").stdout;
    path.truncate(path.trim_ascii_end().len());
    OsString::from_vec(path)
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Child;

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn changes_the_time_of_a_running_process() {
        let clock = Clock::new();
        let mut shell = Command::new("bash");
        let print = r#"while printf "%(%s)T\n" -1; do sleep 0.01; done"#;
        shell.args(["-c", print]);
        clock.apply_to(&mut shell);
        let child = Child::spawn(&shell);
        for ahead in [0, 3_600, -7_200] {
            clock.set(ahead);
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            // All times of the next 100 s begin with these digits.
            let shown = (i64::try_from(now.as_secs()).unwrap() + ahead + 3) / 100;
            let line = child.line_matching(&shown.to_string(), LIMIT).await;
            assert!(line.starts_with(&shown.to_string()), "{line}");
        }
    }
}
