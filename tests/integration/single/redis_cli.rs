//! The commands of the README that inspect locks.

use std::collections::HashSet;
use std::process::Command;

use harness::{Child, Server, eventually};
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;

use crate::support::{SOON, clients, setup, spawn_holder};

/// Returns the commands of the README, one per line.
fn commands() -> Vec<&'static str> {
    let readme = include_str!("../../../README.md");
    let (_, section) = readme.split_once("## Looking at locks with redis-cli\n").unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().collect()
}

/// Runs a command and returns its output.
fn output(command: &str, server: &Server) -> String {
    let here = command.replace("redis-cli ", &format!("redis-cli -p {} ", server.port()));
    let output = Command::new("sh").args(["-c", &here]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors, "", "{here} (Debian: `apt install redis-tools`)");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Starts a process that acquires the lock and keeps it.
fn spawn(server: &Server) -> Child {
    let options = ["ttl=30000", "wait=600000", "hold=600000"].map(str::to_owned);
    spawn_holder(&server.url(), "order:42", &options)
}

/// Waits until there are `count` waiters and returns their tokens, in order.
async fn waiters(redis: &mut MultiplexedConnection, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    eventually("all are queued", SOON, async || {
        all = redis.zrange("{order:42}:waiters", 0, -1).await.unwrap();
        all.len() == count
    })
    .await;
    all
}

/// Returns the addresses of all clients.
async fn addresses(redis: &mut MultiplexedConnection) -> HashSet<String> {
    clients(redis).await.iter().map(|client| address(client).to_owned()).collect()
}

fn address(client: &str) -> &str {
    client.split(' ').find(|field| field.starts_with("addr=")).unwrap()
}

fn process(token: &str) -> &str {
    token.split_once('-').unwrap().0
}

#[tokio::test]
async fn print_what_the_readme_says() {
    let commands = commands();
    let [get, from, pttl, zcard, zrange, held, awaited] = commands[..] else {
        panic!("{commands:#?}")
    };
    let (server, locks, mut redis) = setup().await;
    let say = |command| output(command, &server);
    let free = ["", "", "-2", "0", "", "", ""];
    assert_eq!([get, from, pttl, zcard, zrange, held, awaited].map(say), free);

    let _others = (locks.lock("order:43").await.unwrap(), locks.lock("stock:7").await.unwrap());
    let before = addresses(&mut redis).await;
    let first = spawn(&server);
    first.line_matching("held", SOON).await;
    let theirs = &addresses(&mut redis).await - &before;
    let _second = spawn(&server);
    let in_front = waiters(&mut redis, 1).await.remove(0);
    let _third = spawn(&server);
    let waiting = waiters(&mut redis, 2).await;

    let token = redis.get("order:42").await.unwrap().unwrap();
    assert_eq!(say(get), token);
    let (digits, found) = (process(&token), say(from));
    assert_eq!(digits.len(), 12);
    assert!(found.lines().all(|client| client.contains(digits)), "{found}");
    let found: HashSet<String> = found.lines().map(|client| address(client).to_owned()).collect();
    assert!(!theirs.is_empty() && theirs.is_subset(&found), "{theirs:?} {found:?}");
    let left: u64 = say(pttl).parse().unwrap();
    assert!(left > 20_000 && left <= 30_000, "{left}");
    assert_eq!(say(zcard), "2");
    assert_eq!(say(zrange), waiting.join("\n"));
    assert_eq!(waiting[0], in_front);
    let processes = HashSet::from([&token, &waiting[0], &waiting[1]].map(|token| process(token)));
    assert_eq!(processes.len(), 3, "{processes:?}");
    let held = say(held);
    let held: HashSet<&str> = held.lines().collect();
    assert_eq!(held, HashSet::from(["order:42", "order:43"]));
    assert_eq!(say(awaited), "{order:42}:waiters");
}

#[tokio::test]
async fn find_the_queue_of_a_key_with_braces() {
    let (_server, locks, mut redis) = setup().await;
    let _held = locks.lock("{order}:42").await.unwrap();
    let waits = locks.lock("{order}:42").wait(SOON);
    let look = eventually("the call is queued", SOON, async || {
        redis.zcard("{order}:42:waiters").await.unwrap() == 1
    });
    tokio::select! {
        _ = waits => panic!("the lock was granted"),
        () = look => {}
    }
}
