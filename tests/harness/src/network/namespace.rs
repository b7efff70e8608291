//! Network namespaces.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Child;
use crate::spawn::wrap;

const LIMIT: Duration = Duration::from_secs(30);

/// A network namespace without a name.
///
/// It exists as long as a process runs in it, so it is cleaned up even if the test is killed.
#[derive(Debug)]
pub(super) struct Namespace(Child);

impl Namespace {
    pub(super) async fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo made; exec sleep infinity"]);
        let child = Child::spawn(&command);
        child.line_matching("made", LIMIT).await;
        Self(child)
    }

    /// Returns the process id that identifies the namespace in `ip` commands.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.id())
    }

    /// Wraps `command` so that it runs in this namespace.
    pub(super) fn command(&self, command: &Command) -> Command {
        wrap("nsenter", &[&format!("--net={}", self.path()), "--"], command)
    }

    /// Runs `ip` commands, one per line.
    pub(super) fn ip(&self, script: &str) {
        try_ip(Some(self), script).unwrap_or_else(|error| panic!("{script}: {error}"));
    }
}

/// Returns a command that makes neighbour discovery on `device` retry quickly and without limit.
///
/// By default, an unreachable neighbour soon becomes an error, and is found only a second after its
/// return.
pub(super) fn retry_discovery(device: &str) -> String {
    format!("ntable change name arp_cache dev {device} retrans 20 mcast_probes 1000000")
}

/// Runs `ip` commands in a namespace or, without one, in that of the test. The error is the output
/// of `ip`.
pub(super) fn try_ip(namespace: Option<&Namespace>, script: &str) -> Result<(), String> {
    let mut ip = Command::new("ip");
    ip.args(["-batch", "-"]);
    if let Some(namespace) = namespace {
        ip = namespace.command(&ip);
    }
    ip.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut ip = ip.spawn().map_err(|error| error.to_string())?;
    let mut stdin = ip.stdin.take().expect("stdin is piped");
    stdin.write_all(script.as_bytes()).map_err(|error| error.to_string())?;
    drop(stdin);
    let output = ip.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
