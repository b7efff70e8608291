//! A PostgreSQL server for one test.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::Child;

const READY: &str = "database system is ready to accept connections";
const LIMIT: Duration = Duration::from_secs(60);
/// The folder in which Debian keeps the programs, by version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// A running PostgreSQL server with its own folder, stopped and deleted on drop.
///
/// It listens on a Unix socket in its folder, not on a port.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    dir: TempDir,
}

impl Postgres {
    /// Creates an empty database and starts its server.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed or does not start.
    pub async fn start() -> Self {
        let dir = TempDir::with_prefix("postgres-").expect("a folder can be created");
        if geteuid().is_root() {
            let mut chown = Command::new("chown");
            let given = chown.arg("postgres").arg(dir.path()).status();
            assert!(given.is_ok_and(|status| status.success()), "there is no user `postgres`");
        }
        let data = dir.path().join("data");

        let mut initdb = command("initdb", dir.path());
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres"]);
        initdb.args(["--encoding=UTF8", "--locale=C", "-D"]).arg(&data);
        let child = Child::spawn(&initdb);
        let made = child.exited(LIMIT).await.success();
        assert!(made, "cannot create a database:\n{}", child.lines().join("\n"));

        let mut postgres = command("postgres", dir.path());
        postgres.arg("-D").arg(&data).arg("-k").arg(dir.path()).args(["-h", "", "-F"]);
        // Shared memory in the folder, so that it is deleted with it.
        postgres.args(["-c", "dynamic_shared_memory_type=mmap"]);
        let child = Child::spawn(&postgres);
        child.line_matching(READY, LIMIT).await;
        Self { child, dir }
    }

    /// Returns the connection parameters in the format of `libpq`.
    #[must_use]
    pub fn params(&self) -> String {
        format!("host={} user=postgres", self.dir.path().display())
    }
}

/// Shuts down cleanly, because a killed server leaves shared memory behind.
impl Drop for Postgres {
    fn drop(&mut self) {
        self.child.quit();
    }
}

/// Returns a command for a PostgreSQL program in `dir`; as PostgreSQL refuses root, root runs it as
/// the user `postgres`.
fn command(name: &str, dir: &Path) -> Command {
    let program = program(name).unwrap_or_else(|| {
        panic!(
            "cannot find `{name}`: install PostgreSQL (Debian: `apt install postgresql`, macOS: \
             `brew install postgresql`)"
        )
    });
    let mut command = if geteuid().is_root() {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
        // The change of user has reset the parent-death signal.
        setpriv.args(["setpriv", "--pdeathsig=QUIT", "--"]).arg(program);
        setpriv
    } else {
        Command::new(program)
    };
    command.current_dir(dir);
    command
}

/// Finds a program on the `PATH`, or else in the folder of the newest version.
fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    versions.sort_by_key(|bin| bin.parent()?.file_name()?.to_str()?.parse::<u32>().ok());
    env::split_paths(&path)
        .chain(versions.into_iter().rev())
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}
