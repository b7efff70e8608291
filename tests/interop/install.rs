//! Clients in other languages, from the registries of these.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::Child;
use tempfile::TempDir;

/// For a slow network.
const LIMIT: Duration = Duration::from_secs(300);

/// A call of Python that finds `packages`.
pub(crate) async fn python(packages: &[&str]) -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"]);
    let folder = installed(pip, packages, "python3 python3-pip").await;
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", folder);
    python
}

/// A call of Node.js that finds `packages`.
pub(crate) async fn node(packages: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-package-lock", "--prefix"]);
    let folder = installed(npm, packages, "nodejs npm").await;
    let mut node = Command::new("node");
    node.env("NODE_PATH", folder.join("node_modules"));
    node
}

/// The folder in which `packages` are, put there by `install` now or in an earlier run.
async fn installed(mut install: Command, packages: &[&str], debian: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = target.join(packages.join(" "));
    if folder.exists() {
        return folder;
    }
    let mut trial = Command::new(install.get_program());
    trial.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let program = install.get_program().display();
    assert!(trial.status().is_ok(), "cannot run `{program}` (Debian: `apt install {debian}`)");

    // It gets its name when it is complete.
    let new = TempDir::new_in(target).expect("a folder can be made");
    let child = Child::spawn(install.arg(new.path()).args(packages));
    let done = child.exited(LIMIT).await.success();
    assert!(done, "{packages:?} cannot be installed:\n{}", child.lines().join("\n"));
    fs::rename(new.keep(), &folder).expect("a folder can be renamed");
    folder
}
