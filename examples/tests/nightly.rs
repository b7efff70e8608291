//! The nightly job in two processes, each standing in for a machine.

use std::process::Command;
use std::time::Duration;

use harness::{Child, Server};

const LIMIT: Duration = Duration::from_secs(60);

fn start(redis: &Server) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nightly"));
    command.args(["--redis-url", &redis.url(), "--schedule", "* * * * * *", "--runs", "1"]);
    Child::spawn(&command)
}

/// Returns the outcome of the job from a line such as `nightly: 03:00:00 ran`.
async fn outcome(process: &Child) -> String {
    process.line_matching("nightly: closed", LIMIT).await;
    let lines = process.lines().into_iter();
    let mut outcomes = lines.filter_map(|line| {
        let (_time, outcome) = line.strip_prefix("nightly: ")?.split_once(' ')?;
        (outcome == "ran" || outcome.starts_with("skipped: ")).then(|| outcome.to_owned())
    });
    outcomes.next().unwrap()
}

#[tokio::test]
async fn runs_job_once_in_two_processes() {
    let redis = Server::start().await;
    let machines = [start(&redis), start(&redis)];

    let mut outcomes = [outcome(&machines[0]).await, outcome(&machines[1]).await];

    outcomes.sort();
    assert_eq!(outcomes[0], "ran");
    let skipped = r#"skipped: lock "nightly:report" is busy"#;
    assert!(outcomes[1].starts_with(skipped), "{outcomes:?}");
}

#[tokio::test]
async fn skips_job_on_machine_with_slow_clock() {
    let redis = Server::start().await;
    let on_time = start(&redis);
    assert_eq!(outcome(&on_time).await, "ran");

    // The job has ended when the slow clock reaches the scheduled time.
    let slow = start(&redis);
    assert!(outcome(&slow).await.starts_with("skipped: "));
}
