//! Commands, scripts and replies.

use futures_util::future::join_all;
use harness::{CommandLog, Entry, Server, run};
use lock_runtime::{LockManager, LossCause};
use redis::AsyncTypedCommands;
use tracing::Level;

use crate::support::{
    Capture, FENCE_KEY, SOON, clients, in_own_process, is_script, ms, setup, wait_for_waiters,
    warm_up,
};

fn is_renewal(entry: &Entry) -> bool {
    entry.is("PEXPIRE") && entry.from_script()
}

/// Acquires, renews and releases.
async fn round(locks: &LockManager, key: &str, log: &CommandLog) {
    let guard = locks.lock(key).ttl(ms(1_000)).await.unwrap();
    log.wait_for(|entry| is_renewal(entry) && entry.has(key), SOON).await;
    guard.release().await.unwrap();
    log.settle().await;
}

#[tokio::test]
async fn resends_scripts_that_the_server_has_lost() {
    if !in_own_process("single::protocol::resends_scripts_that_the_server_has_lost").await {
        return;
    }
    let capture = Capture::install();
    let (server, locks, mut redis) = setup().await;
    let log = server.log();
    round(&locks, "warm", &log).await;

    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    run(&mut redis, "SCRIPT FLUSH").await;
    log.wait_for(|entry| is_renewal(entry) && entry.has("k"), SOON).await;
    run(&mut redis, "SCRIPT FLUSH").await;
    guard.release().await.unwrap();

    assert!(!redis.exists("k").await.unwrap());
    let events = capture.with_key("k");
    assert!(events.iter().any(|event| event.message() == "released"), "{events:?}");
    let loud: Vec<_> = events.iter().filter(|event| event.level <= Level::WARN).collect();
    assert!(loud.is_empty(), "{loud:?}");
}

#[tokio::test]
async fn f48_works_when_scripts_are_flushed_all_the_time() {
    let (server, locks, mut redis) = setup().await;
    redis.set_options("held", "x", redis::SetOptions::default()).await.unwrap();
    let log = server.log();
    for _ in 0..20 {
        let guard = locks.lock("k").await.unwrap();
        run(&mut redis, "SCRIPT FLUSH").await;
        assert!(locks.lock("held").await.unwrap_err().is_busy());
        run(&mut redis, "SCRIPT FLUSH").await;
        guard.release().await.unwrap();
    }
    log.settle().await;
    assert_eq!(log.count(|entry| entry.is("SCRIPT") && entry.has("LOAD")), 0);
}

/// The user has the permissions of the guide.
#[tokio::test]
async fn f49_needs_no_permission_to_load_scripts() {
    let guide = include_str!("../../../lock-runtime/README.md");
    let (_, rest) = guide.split_once("may do no more than needed: `").unwrap();
    let (permissions, _) = rest.split_once('`').unwrap();
    let permissions = permissions.replace('\n', " ");
    let (server, _, mut redis) = setup().await;
    run(&mut redis, &format!("ACL SETUSER app on >pass -@all {permissions}")).await;
    let locks = LockManager::connect(server.url_as("app", "pass")).await.unwrap();
    let log = server.log();
    run(&mut redis, "SCRIPT FLUSH").await;
    round(&locks, "order:1", &log).await;
    let held = locks.lock("order:1").await.unwrap();
    let error = locks.lock("order:1").await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    let waiter = tokio::spawn(locks.lock("order:1").wait(SOON).into_future());
    wait_for_waiters(&mut redis, "order:1", 1).await;
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(log.count(|entry| entry.is("SCRIPT") && entry.has("LOAD")), 0);
}

#[tokio::test]
async fn declares_the_keys_of_scripts() {
    /// The keys, each with its helper keys in the same slot of a cluster.
    const KEYS: [(&str, [&str; 2]); 3] = [
        ("order:42", ["{order:42}:waiters", "{order:42}:peers"]),
        ("{order}:42", ["{order}:42:waiters", "{order}:42:peers"]),
        ("shop:{a}{b}:order", ["shop:{a}{b}:order:waiters", "shop:{a}{b}:order:peers"]),
    ];
    let (server, _, redis) = setup().await;
    let log = server.log();
    for (key, helpers) in KEYS {
        let locks = LockManager::connect(server.url()).await.unwrap(); // knows no fence
        let guard = locks.lock(key).ttl(ms(1_000)).await.unwrap();
        let token = redis.clone().get(key).await.unwrap().unwrap();
        let seen = guard.fence().to_string();
        assert!(locks.lock(key).await.unwrap_err().is_busy());
        log.wait_for(|entry| is_renewal(entry) && entry.has(key), SOON).await;
        guard.release().await.unwrap();
        log.settle().await;

        let mut scripts = log.commands_on(key);
        scripts.retain(is_script);
        for script in &scripts {
            assert!(!script.args[1].contains(key) && !script.args[1].contains(&token));
        }
        let with = |keys: &[&str], args: &[&str]| {
            let count = keys.len().to_string();
            let words = [&[&*count], keys, args].concat();
            scripts.iter().filter(|s| s.args[2..] == words).count()
        };
        let [waiters, peers] = helpers;
        let all = [key, waiters, peers, FENCE_KEY];
        assert_eq!(
            with(&all, &[&token, "1000", "", "", "0", "0"]),
            1,
            "no acquire among {scripts:#?}"
        );
        assert!(with(&[key], &[&token, "1000"]) >= 1, "no renewal among {scripts:#?}");
        assert_eq!(with(&all, &[&token, "", &seen, "0"]), 1, "no release among {scripts:#?}");
    }
    let declared = KEYS.iter().flat_map(|(key, [waiters, peers])| [key, waiters, peers]);
    let declared: Vec<_> = declared.chain([&FENCE_KEY]).collect();
    let inside = |entry: &Entry| {
        entry.from_script() && !entry.is("TIME") && !declared.iter().any(|key| entry.has(key))
    };
    assert_eq!(log.count(inside), 0, "a script touches a key that it does not declare");
}

#[tokio::test]
async fn behaves_the_same_with_resp2_and_resp3() {
    let urls = [("", "3"), ("?protocol=resp2", "2"), ("?protocol=resp3", "3")];
    join_all(urls.map(async |(query, version)| {
        let server = Server::start().await;
        let (log, mut redis) = (server.log(), server.connection().await);
        let locks = LockManager::connect(format!("{}/{query}", server.url())).await.unwrap();
        round(&locks, "k", &log).await;
        assert!(!redis.exists("k").await.unwrap());
        let clients = clients(&mut redis).await;
        // Redis 7.0 does not list the protocol.
        let speaks = |client: &String| client.contains(&format!("resp={version}"));
        assert!(clients.iter().all(|c| speaks(c) || !c.contains("resp=")), "{clients:#?}");
        let hello = log.count(|entry| entry.is("HELLO") && entry.args[1] == "3");
        assert_eq!(hello > 0, version == "3", "{:#?}", log.entries());

        let guard = locks.lock("k").await.unwrap();
        redis.set("k", "another holder's").await.unwrap();
        let error = guard.release().await.unwrap_err();
        assert!(error.is_lost(), "{error}");
        assert_eq!(redis.get("k").await.unwrap().as_deref(), Some("another holder's"));
        log.settle().await;
        let read = |entry: &Entry| entry.is("GET") && entry.has("k") && !entry.from_script();
        assert_eq!(log.count(read), 1, "only the test reads the key");
    }))
    .await;
}

/// Starts a server whose command `name` is replaced by `other`, so that its reply is unexpected.
async fn strange_server(name: &str, other: &str) -> (Server, LockManager) {
    let server = Server::builder()
        .config(&format!("rename-command {name} REAL{name}"))
        .config(&format!("rename-command {other} {name}"))
        .start()
        .await;
    let locks = LockManager::builder().timeout(ms(200)).connect(server.url()).await.unwrap();
    (server, locks)
}

#[tokio::test]
async fn reports_an_unexpected_reply_to_an_acquire() {
    let (_server, locks) = strange_server("EVALSHA", "MGET").await;
    warm_up(&locks).await; // with EVAL
    let error = locks.lock("k").wait(ms(500)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
}

#[tokio::test]
async fn ignores_an_unexpected_reply_to_a_renewal() {
    let (_server, locks) = strange_server("PEXPIRE", "LCS").await;
    let guard = locks.lock("k").ttl(ms(400)).await.unwrap();
    assert_eq!(guard.lost().await, LossCause::Expired);
}

#[tokio::test]
async fn reports_an_unexpected_reply_to_a_release() {
    let (_server, locks) = strange_server("DEL", "ECHO").await;
    let guard = locks.lock("k").ttl(ms(400)).await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
}
