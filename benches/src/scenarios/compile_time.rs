//! h: the compile time of the attribute.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tempfile::TempDir;

use crate::bench::Bench;
use crate::rounds::{Metric, Section};
use crate::stats::float;

const FUNCTIONS: usize = 200;

const METRICS: &[Metric] = &[Metric::ratio("user time", "ms")];

/// A crate to compile, with an attribute on each function.
#[derive(Debug, Clone, Copy)]
struct TestCrate {
    package: &'static str,
    attribute: &'static str,
}

const TEST_CRATES: [TestCrate; 3] = [
    TestCrate { package: "plain", attribute: "" },
    TestCrate { package: "instrument", attribute: "#[tracing::instrument]" },
    TestCrate {
        package: "redis_lock",
        attribute: "#[redis_lock(key = \"order:<id>\", ttl = \"30s\")]",
    },
];

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let description = format!(
        "`cargo check` of a crate with {FUNCTIONS} async functions: plain, with \
         `#[tracing::instrument]`, and with `#[redis_lock]`. The user time of the compiler and of \
         cargo for this crate alone, less that of cargo for an unchanged crate."
    );
    let dir = TempDir::with_prefix("benches-")?;
    for test_crate in TEST_CRATES {
        test_crate.write(dir.path())?;
    }
    for test_crate in TEST_CRATES {
        // Dependencies are built here, outside the measurement.
        check(dir.path(), test_crate.package)?;
    }
    let subjects = TEST_CRATES.map(|test_crate| (test_crate.package, test_crate));
    let title = "h. Compile time";
    Section::new("h-compile-time", title, description, METRICS, &["plain", "instrument"])
        .measure(bench, &subjects, async |TestCrate { package, .. }, _| {
            let source = fs::File::options()
                .append(true)
                .open(dir.path().join(package).join("src/lib.rs"))?;
            source.set_modified(std::time::SystemTime::now())?;
            let changed = check(dir.path(), package)?;
            let unchanged = check(dir.path(), package)?;
            Ok(vec![changed - unchanged])
        })
        .await
}

/// Runs `cargo check` and returns its user time in milliseconds.
fn check(dir: &Path, package: &str) -> Result<f64> {
    let before = getrusage(UsageWho::RUSAGE_CHILDREN)?.user_time();
    let output = Command::new("cargo")
        .args(["check", "--quiet", "--offline", "--package", package])
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", dir.join("target"))
        .env("CARGO_INCREMENTAL", "0")
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let time = getrusage(UsageWho::RUSAGE_CHILDREN)?.user_time() - before;
    Ok(float(time.num_microseconds()) / 1e3)
}

impl TestCrate {
    /// Writes the package, and the workspace of all of them.
    fn write(self, dir: &Path) -> Result<()> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let package = dir.join(self.package);
        fs::create_dir_all(package.join("src"))?;
        fs::write(package.join("Cargo.toml"), self.manifest(&here.join("../lock-runtime")))?;
        fs::write(package.join("src/lib.rs"), self.source()?)?;
        let members = TEST_CRATES.map(|test_crate| format!("{:?}", test_crate.package)).join(", ");
        fs::write(
            dir.join("Cargo.toml"),
            format!("[workspace]\nresolver = \"3\"\nmembers = [{members}]\n"),
        )?;
        // The same versions as here are already downloaded.
        fs::copy(here.join("Cargo.lock"), dir.join("Cargo.lock"))?;
        Ok(())
    }

    fn manifest(self, runtime: &Path) -> String {
        format!(
            "[package]\nname = {:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\nlock-runtime = {{ path = \"{}\" }}\ntracing = \"0.1\"\n",
            self.package,
            runtime.display()
        )
    }

    fn source(self) -> Result<String> {
        let mut source = String::from(
            "#![allow(unused_imports)]\n\
             use lock_runtime::{LockError, redis_lock};\n\n\
             async fn step(id: u64) -> Result<usize, LockError> {\n    Ok(usize::from(id > 0))\n}\n",
        );
        for n in 0..FUNCTIONS {
            write!(
                source,
                "\n{}\npub async fn pay_{n}(id: u64, name: &str) -> Result<usize, LockError> {{\n    \
                 let paid = step(id).await?;\n    Ok(paid + name.len() + {n})\n}}\n",
                self.attribute
            )?;
        }
        Ok(source)
    }
}
