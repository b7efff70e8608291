//! Checks of the server when a manager connects.

use harness::{Server, run};
use lock_runtime::LockManager;

use crate::support::{Capture, in_own_process, setup};

#[tokio::test]
async fn f41_warns_about_a_server_that_may_evict_locks() {
    if !in_own_process("single::start::f41_warns_about_a_server_that_may_evict_locks").await {
        return;
    }
    let capture = Capture::install();
    let (server, _, mut redis) = setup().await;
    let settings = [
        ("0", "allkeys-lru", false), // no limit
        ("100mb", "noeviction", false),
        ("100mb", "allkeys-lru", true),
        ("100mb", "volatile-ttl", true),
    ];
    for (memory, policy, named) in settings {
        run(&mut redis, &format!("CONFIG SET maxmemory {memory}")).await;
        run(&mut redis, &format!("CONFIG SET maxmemory-policy {policy}")).await;
        let before = capture.containing("evict").len();
        LockManager::connect(server.url()).await.unwrap();
        let events = capture.containing("evict").split_off(before);
        let policies: Vec<_> = events.iter().map(|event| &*event.fields["policy"]).collect();
        assert_eq!(policies, if named { vec![policy] } else { vec![] }, "{memory} {policy}");
    }
}

#[tokio::test]
async fn f41_connects_without_permission_for_info() {
    let (server, _, mut redis) = setup().await;
    run(&mut redis, "CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru").await;
    run(&mut redis, "ACL SETUSER app on >pass ~* &* +@all -info").await;
    LockManager::connect(server.url_as("app", "pass")).await.unwrap();
}

#[tokio::test]
async fn f56_reports_a_server_without_scripts_at_start() {
    let server = Server::builder().config("rename-command EVAL \"\"").start().await;
    let error = LockManager::connect(server.url()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("EVAL"), "{error}");
}
