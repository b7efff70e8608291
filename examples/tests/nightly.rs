//! The nightly job in two processes, as on two machines.

use std::process::Command;
use std::time::Duration;

use harness::{Child, Server};

const LIMIT: Duration = Duration::from_secs(60);

fn start(redis: &Server) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nightly"));
    command.args(["--redis-url", &redis.url(), "--schedule", "* * * * * *", "--runs", "1"]);
    Child::spawn(&command)
}

/// What came of the job, from a line such as `nightly: 03:00:00 ran`.
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
async fn of_two_processes_one_runs_and_the_other_skips() {
    let redis = Server::start().await;
    let machines = [start(&redis), start(&redis)];

    let mut outcomes = [outcome(&machines[0]).await, outcome(&machines[1]).await];

    outcomes.sort();
    assert_eq!(outcomes[0], "ran");
    let skipped = r#"skipped: lock "nightly:report" is busy"#;
    assert!(outcomes[1].starts_with(skipped), "{outcomes:?}");
}

#[tokio::test]
async fn a_machine_whose_clock_is_late_skips_too() {
    let redis = Server::start().await;
    let early = start(&redis);
    assert_eq!(outcome(&early).await, "ran");

    // The job is over, and another machine thinks that its time has only come now.
    let late = start(&redis);
    assert!(outcome(&late).await.starts_with("skipped: "));
}
