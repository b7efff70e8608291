//! A server that replies with errors.

use std::cell::Cell;
use std::time::{Duration, Instant};

use harness::{Entry, Proxy, Server, eventually, run};
use lock_runtime::{LockError, LockManager, LossCause};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::support::{SOON, count_keys, ms, setup};

/// Checks a held lock and other calls while a server refuses requests for a while.
///
/// `all` means that renewals and releases are refused as well.
async fn refuses_for_a_while(
    server: &Server,
    locks: &LockManager,
    redis: &mut MultiplexedConnection,
    [begin, end]: [&str; 2],
    code: &str,
    all: bool,
) {
    let log = server.log();
    let held = locks.lock("held").ttl(ms(1_500)).await.unwrap();
    let quick = locks.lock("quick").await.unwrap();
    run(redis, begin).await;

    let error = locks.lock("other").await.unwrap_err();
    assert!(error.is_unavailable() && has_code(&error, code), "{error}");
    match quick.release().await {
        Ok(()) => assert!(!all),
        Err(error) => assert!(all && error.is_unavailable(), "{error}"),
    }
    // Sent by hash and then in full: the second one is executed or refused in any case.
    let renewals = Cell::new(0);
    let renewal_in_full = |entry: &Entry| {
        let renewal = entry.name().starts_with("EVAL") && entry.has("held");
        renewals.set(renewals.get() + u32::from(renewal));
        renewals.get() == 2
    };
    held.run(log.wait_for(renewal_in_full, SOON)).await.unwrap();
    run(redis, end).await;
    held.run(sleep(ms(700))).await.unwrap();
    held.release().await.unwrap();

    eventually("the refused release is repeated", SOON, async || {
        !redis.exists("quick").await.unwrap()
    })
    .await;
    locks.lock("other").await.unwrap().release().await.unwrap();
}

/// Returns whether the text contains the error code, ignoring case.
fn has_code(error: &LockError, code: &str) -> bool {
    error.to_string().to_uppercase().contains(code)
}

#[tokio::test]
async fn f42_keeps_held_locks_on_a_full_server() {
    let (server, locks, mut redis) = setup().await;
    let change = ["CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"];
    refuses_for_a_while(&server, &locks, &mut redis, change, "OOM", false).await;
}

#[tokio::test]
async fn f43_keeps_held_locks_while_a_server_cannot_save() {
    let (server, locks, mut redis) = setup().await;
    std::fs::create_dir(server.dir().join("dump.rdb")).unwrap();
    run(&mut redis, "CONFIG SET stop-writes-on-bgsave-error no").await;
    let save = ["SET", "save", "3600 1"];
    redis::cmd("CONFIG").arg(&save).exec_async(&mut redis).await.unwrap();
    redis::cmd("BGSAVE").exec_async(&mut redis).await.unwrap();
    eventually("the snapshot has failed", SOON, async || {
        let info: String = redis::cmd("INFO").query_async(&mut redis).await.unwrap();
        info.contains("rdb_last_bgsave_status:err")
    })
    .await;
    let change =
        ["CONFIG SET stop-writes-on-bgsave-error yes", "CONFIG SET stop-writes-on-bgsave-error no"];
    refuses_for_a_while(&server, &locks, &mut redis, change, "MISCONF", true).await;
}

#[tokio::test]
async fn f44_keeps_held_locks_while_replicas_are_missing() {
    let (server, locks, mut redis) = setup().await;
    let change = ["CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"];
    refuses_for_a_while(&server, &locks, &mut redis, change, "NOREPLICAS", true).await;
}

#[tokio::test]
async fn f45_keeps_held_locks_while_a_server_is_read_only() {
    let (server, locks, mut redis) = setup().await;
    let change = ["REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"];
    refuses_for_a_while(&server, &locks, &mut redis, change, "READONLY", true).await;
}

#[tokio::test]
async fn f45_follows_a_name_to_another_server() {
    let (server, other) = (Server::start().await, Server::start().await);
    let name = Proxy::start(server.addr());
    let locks = LockManager::connect(name.url()).await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
    name.redirect_to(other.addr()); // open connections stay
    let demote = format!("REPLICAOF 127.0.0.1 {}", other.port());
    run(&mut server.connection().await, &demote).await;
    let guard = locks.lock("k").wait(SOON).await.unwrap();
    assert!(other.connection().await.exists("k").await.unwrap());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn reports_a_demoted_server_until_its_promotion() {
    let (_server, locks, mut redis) = setup().await;
    let primary = Server::start().await;
    locks.lock("k").await.unwrap().release().await.unwrap();

    run(&mut redis, &format!("REPLICAOF 127.0.0.1 {}", primary.port())).await;
    let error = locks.lock("k").await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");

    let waiter = tokio::spawn(locks.lock("k").wait(ms(20_000)).into_future());
    sleep(ms(300)).await;
    assert!(!waiter.is_finished());
    run(&mut redis, "REPLICAOF NO ONE").await;
    waiter.await.unwrap().unwrap().release().await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn finds_another_server_at_the_same_address() {
    let (mut server, locks, mut redis) = setup().await;
    run(&mut redis, "REPLICAOF 127.0.0.1 1").await;
    assert!(locks.lock("k").await.unwrap_err().is_unavailable());
    server.restart().await; // as a primary
    locks.lock("k").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn f46_waits_for_a_server_that_loads_its_data() {
    let builder = Server::builder().config("loading-process-events-interval-bytes 1024");
    let mut server = builder.config("key-load-delay 3000").start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let mut redis = server.connection().await;
    for n in 0..300 {
        redis.set(format!("data{n}"), "x".repeat(1_000)).await.unwrap();
    }
    redis::cmd("SAVE").exec_async(&mut redis).await.unwrap();

    server.kill();
    let (granted, texts, ()) = tokio::join!(
        locks.lock("k").wait(ms(30_000)),
        async {
            let mut texts = Vec::new();
            while let Err(error) = locks.lock("impatient").await {
                assert!(error.is_unavailable(), "{error}");
                texts.push(error.to_string().to_uppercase());
                sleep(ms(20)).await;
            }
            texts
        },
        server.restart(),
    );
    granted.unwrap().release().await.unwrap();
    assert!(texts.iter().any(|text| text.contains("LOADING")), "{texts:#?}");
}

#[tokio::test]
async fn f47_keeps_held_locks_while_a_script_hangs() {
    let server = Server::builder().config("busy-reply-threshold 100").start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let (mut redis, mut hanging) = (server.connection().await, server.connection().await);
    let held = locks.lock("held").ttl(ms(5_000)).await.unwrap();
    let script = tokio::spawn(async move {
        let mut script = redis::cmd("EVAL");
        script.arg("while true do end").arg(0).query_async::<()>(&mut hanging).await
    });
    sleep(ms(200)).await;

    let error = locks.lock("k").await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    held.run(sleep(ms(3_500))).await.unwrap(); // the first renewals are refused
    assert!(!script.is_finished(), "the script was killed");
    run(&mut redis, "SCRIPT KILL").await;
    assert!(script.await.unwrap().is_err());

    held.run(sleep(ms(1_600))).await.unwrap();
    held.release().await.unwrap();
    locks.lock("k").wait(SOON).await.unwrap().release().await.unwrap();
}

const CREATE_USER: &str = "ACL SETUSER app on >pass ~* +@all";

#[tokio::test]
async fn f51_keeps_open_connections_of_a_disabled_user() {
    let (server, _, mut redis) = setup().await;
    run(&mut redis, CREATE_USER).await;
    let locks = LockManager::connect(server.url_as("app", "pass")).await.unwrap();
    let log = server.log();
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    let other = locks.lock("other").ttl(ms(1_000)).await.unwrap();
    log.wait_for(|entry| entry.is("PEXPIRE"), SOON).await; // both connections are open
    run(&mut redis, "ACL SETUSER app off").await;
    guard.run(sleep(ms(1_000))).await.unwrap();
    guard.release().await.unwrap();
    other.release().await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn f51_reports_a_deleted_user_at_once() {
    let (server, _, mut redis) = setup().await;
    run(&mut redis, CREATE_USER).await;
    let locks = LockManager::connect(server.url_as("app", "pass")).await.unwrap();
    let guard = locks.lock("held").ttl(ms(3_000)).await.unwrap();
    let began = Instant::now();
    run(&mut redis, "ACL DELUSER app").await;

    let error = locks.lock("k").wait(ms(30_000)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(began.elapsed() < ms(2_500), "the call waited in vain: {:?}", began.elapsed());
    assert!(!format!("{error} {error:?}").contains("pass@"), "{error:?}");
    let error = guard.run(std::future::pending::<()>()).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { cause: LossCause::Expired, .. }), "{error}");
    assert!(began.elapsed() > ms(1_800) && began.elapsed() < ms(4_000), "{:?}", began.elapsed());

    run(&mut redis, CREATE_USER).await;
    locks.lock("k").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn f52_reports_a_server_without_free_connections() {
    let server = Server::builder().config("maxclients 3").start().await;
    let mut connections = Vec::new();
    while connections.len() < 3 {
        connections.push(TcpStream::connect(server.addr()).await.unwrap());
    }
    let began = Instant::now();
    let error = LockManager::connect(server.url()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains(&server.addr().to_string()), "{error}");
    assert!(began.elapsed() < Duration::from_secs(3) + ms(500), "{:?}", began.elapsed());

    drop(connections);
    let connected = async || LockManager::connect(server.url()).await.is_ok();
    eventually("a connection is free", SOON, connected).await;
}

#[tokio::test]
async fn f50_names_a_missing_permission_of_a_script_at_once() {
    let (server, _, mut redis) = setup().await;
    run(&mut redis, "ACL SETUSER app on >pass ~* &* +@all -set").await;
    let locks = LockManager::connect(server.url_as("app", "pass")).await.unwrap();
    let start = Instant::now();
    let error = locks.lock("k").wait(SOON).await.unwrap_err();
    assert!(start.elapsed() < ms(1_000), "{:?}", start.elapsed());
    assert!(error.is_unavailable() && has_code(&error, "PERMISSIONS"), "{error}");
    assert_eq!(count_keys(&mut redis).await, 0);
}

/// A failed script is not rolled back, so the lock is set after everything that may fail.
#[tokio::test]
async fn f58_leaves_no_lock_when_a_script_fails_midway() {
    const COMMANDS: [&str; 8] = ["set", "incr", "time", "exists", "pttl", "zadd", "zrank", "hset"];
    let (server, holder, mut redis) = setup().await;
    let mut failed = Vec::new();
    for command in COMMANDS {
        run(&mut redis, &format!("ACL SETUSER app reset on >pass ~* &* +@all -{command}")).await;
        let locks = LockManager::connect(server.url_as("app", "pass")).await.unwrap();
        let held = holder.lock("busy").await.unwrap();
        for key in ["free", "busy"] {
            match locks.lock(key).wait(ms(50)).await {
                Ok(guard) => drop(guard),
                Err(error) if error.is_busy() => {}
                Err(error) => {
                    assert!(error.is_unavailable() && has_code(&error, "PERMISSIONS"), "{error}");
                    failed.push((command, key));
                }
            }
        }
        held.release().await.unwrap();
        locks.shutdown().await;
        eventually("nothing is left", SOON, async || count_keys(&mut redis).await == 0).await;
    }
    for command in ["set", "incr", "time", "exists"] {
        assert!(failed.contains(&(command, "free")), "{failed:?}");
    }
}

#[tokio::test]
async fn f50_names_a_missing_permission_to_read_the_lock() {
    let (server, _, mut redis) = setup().await;
    run(&mut redis, "ACL SETUSER app on >pass ~* &* +@all -get").await;
    let locks = LockManager::connect(server.url_as("app", "pass")).await.unwrap();
    let error = locks.lock("k").await.unwrap_err();
    assert!(error.is_unavailable() && has_code(&error, "PERMISSIONS"), "{error}");
}

/// Without the permission, the holder cannot know whether it still owns the lease.
#[tokio::test]
async fn f50_holds_until_the_deadline_without_read_permission() {
    let (server, _, mut redis) = setup().await;
    run(&mut redis, "ACL SETUSER app on >pass ~* &* +@all").await;
    let locks = LockManager::connect(server.url_as("app", "pass")).await.unwrap();
    let guard = locks.lock("k").ttl(ms(1_000)).await.unwrap();
    run(&mut redis, "ACL SETUSER app -get").await;
    assert_eq!(guard.lost().await, LossCause::Expired);
}
