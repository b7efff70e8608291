//! A process of the test.

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

/// A running process whose output is recorded; it is killed when this is dropped.
///
/// Where `setpriv` is installed, it is also killed when the test process is.
#[derive(Debug)]
pub struct Child {
    process: Mutex<process::Child>,
    output: Journal<String>,
}

impl Child {
    /// Starts `command` with no input; program, arguments, environment and folder are heeded.
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

    /// The process's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process().id()
    }

    /// What it has printed so far, on both streams.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.output.items()
    }

    /// The first line that contains `text`, as soon as it is printed.
    ///
    /// # Panics
    ///
    /// If the output ends without it, or `limit` passes.
    pub async fn line_matching(&self, text: &str, limit: Duration) -> String {
        self.find_line(text, limit).await.unwrap_or_else(|| {
            panic!("no line with {text:?} within {limit:?} in:\n{}", self.lines().join("\n"))
        })
    }

    /// As `line_matching`, but none if the output ends without it or `limit` passes.
    pub(crate) async fn find_line(&self, text: &str, limit: Duration) -> Option<String> {
        self.output.first(limit, |line| line.contains(text)).await
    }

    /// How it ended, once it has ended by itself and all of its output is in [`lines`](Self::lines).
    ///
    /// # Panics
    ///
    /// If it runs on past `limit`.
    pub async fn exited(&self, limit: Duration) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", limit, async || {
            status = self.process().try_wait().expect("a child can be waited for");
            status.is_some()
        })
        .await;
        self.output.first(limit, |_| false).await;
        status.expect("it has ended")
    }

    /// Stops the process where it is, as a debugger or a frozen machine does.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn pause(&self) {
        let mut process = self.process();
        let pid = signal(&mut process, Signal::STOP);
        // The signal only asks: wait until it stands still. Its end is left for `kill` to collect.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped).expect("a child can be waited for");
    }

    /// Lets a paused process run on.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn resume(&self) {
        signal(&mut self.process(), Signal::CONT);
    }

    /// Kills the process, paused or not, and waits until it is gone.
    ///
    /// # Panics
    ///
    /// If the system does not allow it.
    pub fn kill(&self) {
        end(&mut self.process()).expect("a child can be killed");
    }

    /// Asks the process to end at once but in good order, and waits until it is gone.
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

/// Sends `signal` to a process that has not been waited for, whose id is therefore its own.
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
    async fn lines_are_seen_as_they_come() {
        let child = shell("echo first; echo second >&2; exec sleep 60");
        assert_eq!(child.line_matching("sec", LIMIT).await, "second");
        assert_eq!(child.lines(), ["first", "second"]);
    }

    #[tokio::test]
    #[should_panic(expected = "in:\nonly this")]
    async fn a_missing_line_ends_the_wait_with_the_output() {
        shell("echo only this").line_matching("that", Duration::MAX).await;
    }

    #[tokio::test]
    async fn environment_and_status_are_passed_on() {
        let child = Child::spawn(Command::new("sh").args(["-c", "exit $CODE"]).env("CODE", "7"));
        assert_eq!(child.exited(LIMIT).await.code(), Some(7));
    }

    #[tokio::test]
    async fn a_paused_process_stands_still() {
        let child = shell("while :; do echo tick; sleep 0.01; done");
        child.line_matching("tick", LIMIT).await;
        child.pause();
        tokio::time::sleep(Duration::from_millis(50)).await; // for what is in the pipe
        let before = child.lines().len();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(child.lines().len(), before);
        child.resume();
        eventually("it goes on", LIMIT, async || child.lines().len() > before).await;
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let child = shell("exec sleep 60");
        let pid = Pid::from_child(&child.process());
        drop(child);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[tokio::test]
    #[should_panic(expected = "the process has ended")]
    async fn an_ended_process_cannot_be_paused() {
        let child = shell("true");
        child.exited(LIMIT).await;
        child.pause();
    }
}
