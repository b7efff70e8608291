//! Clients in other languages, installed from `PyPI` and npm.

use std::path::Path;
use std::process::Command;

use harness::{npm, pip};

const TARGET: &str = env!("CARGO_TARGET_TMPDIR");

/// Returns a command that runs Python with `packages`.
pub(crate) async fn python(packages: &[&str]) -> Command {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", pip(Path::new(TARGET), packages).await);
    python
}

/// Returns a command that runs Node.js with `packages`.
pub(crate) async fn node(packages: &[&str]) -> Command {
    let mut node = Command::new("node");
    node.env("NODE_PATH", npm(Path::new(TARGET), packages).await.join("node_modules"));
    node
}
