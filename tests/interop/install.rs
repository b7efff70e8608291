//! Clients in other languages, from the registries of these.

use std::path::Path;
use std::process::Command;

use harness::{npm, pip};

const TARGET: &str = env!("CARGO_TARGET_TMPDIR");

/// A call of Python that finds `packages`.
pub(crate) async fn python(packages: &[&str]) -> Command {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", pip(Path::new(TARGET), packages).await);
    python
}

/// A call of Node.js that finds `packages`.
pub(crate) async fn node(packages: &[&str]) -> Command {
    let mut node = Command::new("node");
    node.env("NODE_PATH", npm(Path::new(TARGET), packages).await.join("node_modules"));
    node
}
