//! i: the instructions of a client for one acquire and release, counted by valgrind.

use std::future::ready;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::runtime;

use super::participants;
use crate::bench::{Bench, this_program};
use crate::contenders::{Contender, Settings};
use crate::rounds::{Metric, Section};

const METRICS: &[Metric] = &[Metric::ratio("instructions per pair", "")];

const FEW: u32 = 100;
const MANY: u32 = 1_100;

pub(super) async fn run(bench: &Bench) -> Result<Section> {
    let description = format!(
        "Instructions of the whole client process with all its threads, without the kernel and \
         the server: `valgrind --tool=callgrind benches count --contender NAME --pairs N --url \
         URL` counts them for {MANY} and for {FEW} pairs of acquire and release, and the \
         difference is divided by {}.",
        MANY - FEW
    );
    let (subjects, _) = participants(|_| Ok(()));
    let title = "i. Instructions of a client";
    let mut section = Section::new("i-instructions", title, description, METRICS, &["raw"]);
    if Command::new("valgrind").arg("--version").output().is_err() {
        let missing = |&(name, _)| (name, "valgrind is not installed".to_owned());
        section.excluded = subjects.iter().map(missing).collect();
        return Ok(section);
    }
    section
        .measure(bench, &subjects, async |contender, _| {
            let few = instructions(bench, contender, FEW)?;
            let many = instructions(bench, contender, MANY)?;
            Ok(vec![(many - few) / f64::from(MANY - FEW)])
        })
        .await
}

/// Takes and releases a free lock `pairs` times: the run that valgrind counts.
pub(crate) fn count(contender: Contender, pairs: u32, url: &str) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let lock = contender.connect(url, Settings::default()).await?;
        for _ in 0..pairs {
            lock.run("order-17", Box::pin(ready(()))).await?;
        }
        Ok(())
    })
}

fn instructions(bench: &Bench, contender: Contender, pairs: u32) -> Result<f64> {
    let dir = TempDir::with_prefix("benches-")?;
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("--tool=callgrind");
    valgrind.arg(format!("--callgrind-out-file={}", dir.path().join("out").display()));
    valgrind.arg(this_program()?.get_program()).arg("count");
    valgrind.args(["--contender", &contender.option(), "--pairs", &pairs.to_string()]);
    valgrind.args(["--url", &bench.url()]);
    let output = valgrind.output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind failed: {stderr}");
    let collected = stderr.lines().find_map(|line| line.split_once("Collected :"));
    let (_, number) = collected.context("valgrind printed no instruction count")?;
    Ok(number.trim().parse()?)
}
