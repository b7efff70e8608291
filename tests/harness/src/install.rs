//! Programs and libraries of others, from the registries of other languages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::Child;

/// For a slow network.
const LIMIT: Duration = Duration::from_secs(300);

/// The folder below `target` with `packages` of `PyPI`, put there now or in an earlier run.
///
/// # Panics
///
/// If they cannot be installed.
pub async fn pip(target: &Path, packages: &[&str]) -> PathBuf {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"]);
    installed(target, pip, packages, "python3 python3-pip").await
}

/// The folder below `target` with `packages` of npm, put there now or in an earlier run.
///
/// # Panics
///
/// If they cannot be installed.
pub async fn npm(target: &Path, packages: &[&str]) -> PathBuf {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-package-lock", "--prefix"]);
    installed(target, npm, packages, "nodejs npm").await
}

async fn installed(
    target: &Path,
    mut install: Command,
    packages: &[&str],
    debian: &str,
) -> PathBuf {
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
