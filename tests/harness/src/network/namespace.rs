//! Network namespaces.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Child;
use crate::spawn::behind;

const LIMIT: Duration = Duration::from_secs(30);

/// A network stack of its own.
///
/// It has no name, it lasts as long as a process is in it: nothing is left behind, whatever becomes
/// of the test.
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

    /// The id by which `ip` knows it.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.id())
    }

    /// `command`, to be run in it.
    pub(super) fn command(&self, command: &Command) -> Command {
        behind("nsenter", &[&format!("--net={}", self.path()), "--"], command)
    }

    /// Carries out commands of `ip`, one a line.
    pub(super) fn ip(&self, script: &str) {
        try_ip(Some(self), script).unwrap_or_else(|error| panic!("{script}: {error}"));
    }
}

/// Has whoever looks for a neighbour at `device` do it for ever, and often.
///
/// Else an unreachable one is soon an error, and one that is back is not found for a second.
pub(super) fn persistent(device: &str) -> String {
    format!("ntable change name arp_cache dev {device} retrans 20 mcast_probes 1000000")
}

/// Carries out commands of `ip` in a namespace, or in that of the test; or what it says instead.
pub(super) fn try_ip(namespace: Option<&Namespace>, script: &str) -> Result<(), String> {
    let mut ip = Command::new("ip");
    ip.args(["-batch", "-"]);
    if let Some(namespace) = namespace {
        ip = namespace.command(&ip);
    }
    ip.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut ip = ip.spawn().map_err(|error| error.to_string())?;
    let mut stdin = ip.stdin.take().expect("it is piped");
    stdin.write_all(script.as_bytes()).map_err(|error| error.to_string())?;
    drop(stdin);
    let output = ip.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
