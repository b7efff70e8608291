//! A child process of the test.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::process::{self, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::eventually;
use crate::journal::Journal;
use crate::spawn::spawn;

/// A running process whose output is recorded, killed on drop.
///
/// Where `setpriv` is installed, it also dies with the test process.
#[derive(Debug)]
pub struct Child {
    process: Mutex<process::Child>,
    output: Journal<String>,
}

impl Child {
    /// Starts `command` without input; program, arguments, environment and folder are respected.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn spawn(command: &Command) -> Self {
        let (process, pipe) =
            spawn(command).unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let (writer, output) = Journal::new();
        thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                writer.push(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        });
        Self { process: Mutex::new(process), output }
    }

    /// Starts the test `name` of this test binary in a process of its own, with the environment
    /// variables `vars`.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn test(name: &str, vars: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env::current_exe().expect("the test binary has a path"));
        command.args([name, "--exact", "--nocapture"]).envs(vars.iter().copied());
        Self::spawn(&command)
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process().id()
    }

    /// Returns the lines that it has printed so far, on both streams.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.output.items()
    }

    /// Waits for the first line that contains `text` and returns it.
    ///
    /// # Panics
    ///
    /// If the output ends without it, or `limit` passes.
    pub async fn line_matching(&self, text: &str, limit: Duration) -> String {
        self.find_line(text, limit).await.unwrap_or_else(|| {
            panic!("no line with {text:?} within {limit:?} in:\n{}", self.lines().join("\n"))
        })
    }

    /// As `line_matching`, but returns `None` if the output ends without it or `limit` passes.
    pub(crate) async fn find_line(&self, text: &str, limit: Duration) -> Option<String> {
        self.output.first(limit, |line| line.contains(text)).await
    }

    /// Waits until the process has ended by itself and [`lines`](Self::lines) has all of its
    /// output, and returns its status.
    ///
    /// # Panics
    ///
    /// If it still runs after `limit`.
    pub async fn exited(&self, limit: Duration) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", limit, async || {
            status = self.process().try_wait().expect("a child can be waited for");
            status.is_some()
        })
        .await;
        self.output.first(limit, |_| false).await;
        status.expect("the process has ended")
    }

    /// Stops the process with `SIGSTOP`, as a debugger or a frozen machine does.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn pause(&self) {
        let mut process = self.process();
        let pid = signal(&mut process, Signal::STOP);
        // The signal takes effect later: wait until the process has stopped. `kill` reaps it.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped).expect("a child can be waited for");
    }

    /// Continues a paused process.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn resume(&self) {
        signal(&mut self.process(), Signal::CONT);
    }

    /// Kills the process, paused or not, and waits for its end.
    ///
    /// # Panics
    ///
    /// If the process cannot be killed.
    pub fn kill(&self) {
        end(&mut self.process()).expect("a child can be killed");
    }

    /// Sends `SIGQUIT`, which shuts down at once but cleanly, and waits for the end.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub(crate) fn quit(&self) {
        let mut process = self.process();
        signal(&mut process, Signal::QUIT);
        process.wait().expect("a child can be waited for");
    }

    fn process(&self) -> MutexGuard<'_, process::Child> {
        self.process.lock().expect("no panic under the lock")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.get_mut().map(end);
    }
}

/// Sends `signal` to a process that has not been reaped, so its id cannot belong to another one.
fn signal(process: &mut process::Child, signal: Signal) -> Pid {
    let ended = process.try_wait().expect("a child can be waited for");
    assert_eq!(ended, None, "the process has ended");
    let pid = Pid::from_child(process);
    kill_process(pid, signal).expect("a child can be signalled");
    pid
}

fn end(process: &mut process::Child) -> io::Result<ExitStatus> {
    process.kill()?;
    process.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn shell(script: &str) -> Child {
        Child::spawn(Command::new("sh").args(["-c", script]))
    }

    #[tokio::test]
    async fn records_lines_of_both_streams() {
        let child = shell("echo first; echo second >&2; exec sleep 60");
        assert_eq!(child.line_matching("sec", LIMIT).await, "second");
        assert_eq!(child.lines(), ["first", "second"]);
    }

    #[tokio::test]
    #[should_panic(expected = "in:\nonly this")]
    async fn panics_with_the_output_when_a_line_is_missing() {
        shell("echo only this").line_matching("that", Duration::MAX).await;
    }

    #[tokio::test]
    async fn passes_the_environment_and_returns_the_status() {
        let child = Child::spawn(Command::new("sh").args(["-c", "exit $CODE"]).env("CODE", "7"));
        assert_eq!(child.exited(LIMIT).await.code(), Some(7));
    }

    #[tokio::test]
    async fn prints_nothing_while_paused() {
        let child = shell("while :; do echo tick; sleep 0.01; done");
        child.line_matching("tick", LIMIT).await;
        child.pause();
        tokio::time::sleep(Duration::from_millis(50)).await; // until the pipe is empty
        let before = child.lines().len();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(child.lines().len(), before);
        child.resume();
        eventually("the process continues", LIMIT, async || child.lines().len() > before).await;
    }

    #[test]
    fn kills_the_process_on_drop() {
        let child = shell("exec sleep 60");
        let pid = Pid::from_child(&child.process());
        drop(child);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[tokio::test]
    #[should_panic(expected = "the process has ended")]
    async fn panics_when_pausing_an_ended_process() {
        let child = shell("true");
        child.exited(LIMIT).await;
        child.pause();
    }
}
