//! Locks in other languages that use `SET key token NX PX`: they exclude us, and we exclude them.

mod install;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::{Child, Server};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

const KEY: &str = "order:42";
const ROUND: Duration = Duration::from_secs(10);
const ROUNDS: usize = 6;
/// The limit for the start of a program.
const START: Duration = Duration::from_secs(30);

/// A hold by a rival, in nanoseconds of the system's monotonic clock.
#[derive(Debug, PartialEq)]
struct Turn {
    rival: &'static str,
    enter: u128,
    leave: u128,
}

/// Two of our processes with four tasks each, redis-py and redlock, each used as in its manual.
#[tokio::test]
async fn gives_turns_to_rivals_of_all_kinds_one_at_a_time() {
    let mut python = install::python(&["redis==8.1.0"]).await;
    let mut node = install::node(&["ioredis@5.9.2", "redlock@4.2.0"]).await;
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR"));
    python.arg(scripts.join("rival.py"));
    node.arg(scripts.join("rival.js"));
    let ours = || Command::new(env!("CARGO_BIN_EXE_rival"));
    let commands =
        [("redis-py", python), ("redlock", node), ("ours", ours()), ("ours, too", ours())];

    let server = Server::start().await;
    let mut rivals = Vec::new();
    for (name, mut command) in commands {
        let child = Child::spawn(command.args([&server.url(), KEY]));
        child.line_matching("turn", START).await;
        rivals.push((name, child));
    }
    let all_started = now();
    let mut counts = Vec::new();
    // A client that polls may have no turn in one round, but is not locked out for good.
    for _ in 0..ROUNDS {
        sleep(ROUND).await;
        let mut turns: Vec<Turn> = rivals.iter().flat_map(|(name, c)| turns(name, c)).collect();
        assert_eq!(overlap(&mut turns), None);
        turns.retain(|turn| turn.enter > all_started);
        let count = |rival| turns.iter().filter(|turn| turn.rival == rival).count();
        counts = rivals.iter().map(|&(name, _)| (name, count(name))).collect();
        println!("{counts:?}");
        if counts.iter().all(|&(_, turns)| turns > 0) {
            return;
        }
    }
    panic!("a rival has no turns: {counts:?}");
}

#[test]
fn detects_overlaps() {
    let overlap = |turns: &[(u128, u128)]| {
        let turn = |&(enter, leave)| Turn { rival: "", enter, leave };
        overlap(&mut turns.iter().map(turn).collect::<Vec<_>>()).is_some()
    };
    assert!(!overlap(&[(5, 9), (0, 5)]));
    assert!(overlap(&[(5, 9), (0, 6)]));
    assert!(overlap(&[(3, 4), (1, 2), (0, 9)]));
}

/// Parses the output of a rival, which consists of turns unless it has failed.
fn turns(rival: &'static str, child: &Child) -> Vec<Turn> {
    let (turns, errors): (Vec<_>, Vec<_>) =
        child.lines().into_iter().partition(|line| line.starts_with("turn "));
    assert!(errors.is_empty(), "{rival}:\n{}", errors.join("\n"));
    turns.iter().map(|line| Turn::parse(rival, line)).collect()
}

impl Turn {
    /// Reads `turn ENTER LEAVE`.
    fn parse(rival: &'static str, line: &str) -> Self {
        let mut numbers = line.split(' ').skip(1).map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Self { rival, enter: next(), leave: next() }
    }
}

/// Returns two turns that overlap. If any turns overlap, two consecutive ones do.
fn overlap(turns: &mut [Turn]) -> Option<&[Turn]> {
    turns.sort_by_key(|turn| turn.enter);
    turns.windows(2).find(|pair| pair[0].leave > pair[1].enter)
}

fn now() -> u128 {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap().as_nanos()
}
