//! Packages of `PyPI` and npm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::Child;

/// Long enough for a slow network.
const LIMIT: Duration = Duration::from_secs(300);

/// Returns the folder below `target` with `packages` of `PyPI`, installing them on the first run.
///
/// # Panics
///
/// If they cannot be installed.
pub async fn pip(target: &Path, packages: &[&str]) -> PathBuf {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"]);
    install(target, pip, packages, "python3 python3-pip").await
}

/// Returns the folder below `target` with `packages` of npm, installing them on the first run.
///
/// # Panics
///
/// If they cannot be installed.
pub async fn npm(target: &Path, packages: &[&str]) -> PathBuf {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-package-lock", "--prefix"]);
    install(target, npm, packages, "nodejs npm").await
}

async fn install(
    target: &Path,
    mut installer: Command,
    packages: &[&str],
    debian: &str,
) -> PathBuf {
    let folder = target.join(packages.join(" "));
    if folder.exists() {
        return folder;
    }
    let mut trial = Command::new(installer.get_program());
    trial.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let program = installer.get_program().display();
    assert!(trial.status().is_ok(), "cannot run `{program}` (Debian: `apt install {debian}`)");

    // Renamed once it is complete.
    let new = TempDir::new_in(target).expect("a folder can be created");
    let child = Child::spawn(installer.arg(new.path()).args(packages));
    let done = child.exited(LIMIT).await.success();
    assert!(done, "cannot install {packages:?}:\n{}", child.lines().join("\n"));
    fs::rename(new.keep(), &folder).expect("the folder can be renamed");
    folder
}
