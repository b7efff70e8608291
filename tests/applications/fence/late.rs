//! A holder that is paused between its last check of the lease and its write.

use std::path::Path;
use std::{env, fs, thread};

use harness::{Child, Postgres, Server};
use lock_runtime::LockManager;
use tempfile::TempDir;

use super::postgres::{client, create, state, update};
use crate::support::{SOON, ms};

const NAME: &str = "fence::late::f19_f21_rejects_a_write_after_the_lease";

/// Runs the holder, in a process of its own.
async fn write_late(redis: &str) {
    let db = client(&env::var("TEST_POSTGRES").unwrap()).await;
    let locks = LockManager::connect(redis).await.unwrap();
    let guard = locks.lock("order:42").ttl(ms(1_000)).await.unwrap();
    assert!(update(&db, "begun", guard.fence().into()).await);
    assert!(!guard.is_lost());
    println!("about to write");
    let go = env::var("TEST_GO").unwrap();
    while !Path::new(&go).exists() {
        thread::sleep(ms(1)); // blocks, so that no executor can stop it
    }
    let lost = guard.is_lost();
    let written = update(&db, "written late", guard.fence().into()).await;
    println!("lost: {lost}, written: {written}");
}

#[tokio::test]
async fn f19_f21_rejects_a_write_after_the_lease() {
    if let Ok(redis) = env::var("TEST_REDIS") {
        return write_late(&redis).await;
    }
    let (redis, postgres, dir) =
        (Server::start().await, Postgres::start().await, TempDir::new().unwrap());
    let db = client(&postgres.params()).await;
    create(&db).await;
    let go = dir.path().join("go");
    let (url, params, path) = (redis.url(), postgres.params(), go.display().to_string());
    let first =
        Child::test(NAME, &[("TEST_REDIS", &url), ("TEST_POSTGRES", &params), ("TEST_GO", &path)]);
    first.line_matching("about to write", SOON).await;
    first.pause();

    let locks = LockManager::connect(&*url).await.unwrap();
    let second = locks.lock("order:42").wait(SOON).await.unwrap();
    assert!(update(&db, "paid", second.fence().into()).await);
    fs::write(&go, "").unwrap();
    first.resume();
    first.line_matching("lost: true, written: false", SOON).await;
    assert_eq!(state(&db).await, "paid");
    assert!(update(&db, "sent", second.fence().into()).await, "the second holder is not affected");
    second.release().await.unwrap();
}
