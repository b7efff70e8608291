//! URLs and clients that name a server.

use futures_util::future::join_all;
use harness::{Entry, Server, eventually, run};
use lock_runtime::{LockError, LockManager};
use redis::{AsyncTypedCommands, Client};

use crate::support::{SOON, ms};

/// Acquires a lock, finds it and its renewal in the database `db`, and releases it.
async fn locks_in(locks: &LockManager, server: &Server, key: &str, db: u32) {
    let client = Client::open(format!("{}/{db}", server.url())).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let log = server.log();
    let guard = locks.lock(key).ttl(ms(2_000)).await.unwrap();
    assert!(redis.exists(key).await.unwrap());
    let renewal = |entry: &Entry| entry.is("PEXPIRE") && entry.has(key) && entry.db == db;
    guard.run(log.wait_for(renewal, SOON)).await.unwrap();
    guard.release().await.unwrap();
    assert!(!redis.exists(key).await.unwrap());
}

#[tokio::test]
async fn f71_uses_the_database_in_the_path() {
    let server = Server::start().await;
    let log = server.log();
    let locks = LockManager::connect(format!("{}/3", server.url())).await.unwrap();
    locks_in(&locks, &server, "k", 3).await;
    log.settle().await;
    let elsewhere = log.count(|entry| entry.has("k") && entry.db != 3);
    assert_eq!(elsewhere, 0, "{:#?}", log.commands_on("k"));

    let other = LockManager::connect(format!("{}/4", server.url())).await.unwrap();
    let here = locks.lock("k").await.unwrap();
    let there = other.lock("k").await.unwrap();
    server.kill();
    for (guard, db) in [(here, 3), (there, 4)] {
        let error = guard.release().await.unwrap_err().to_string();
        assert!(error.contains(&format!("{}/{db}", server.addr())), "{error}");
    }
}

#[tokio::test]
async fn f72_reconnects_to_the_same_database() {
    let mut server = Server::start().await;
    let locks = LockManager::connect(format!("{}/3", server.url())).await.unwrap();
    for key in ["first", "second"] {
        let guard = locks.lock(key).ttl(ms(2_000)).await.unwrap();
        run(&mut server.connection().await, "CLIENT KILL TYPE normal").await;
        let log = server.log();
        let renewal = |entry: &Entry| entry.is("PEXPIRE") && entry.has(key);
        let renewal = guard.run(log.wait_for(renewal, SOON)).await.unwrap();
        guard.release().await.unwrap();
        log.settle().await;
        assert_eq!(renewal.db, 3);
        assert!(log.commands_on(key).iter().all(|entry| entry.db == 3), "{:#?}", log.entries());
        locks_in(&locks, &server, "k", 3).await;
    }
    server.restart().await;
    locks_in(&locks, &server, "k", 3).await;
}

#[tokio::test]
async fn reports_an_invalid_database() {
    let server = Server::start().await;
    for db in ["16", "-1"] {
        let url = format!("{}/{db}", server.url());
        let error = LockManager::connect(&url).await.unwrap_err();
        let typed =
            matches!(error, LockError::Unavailable { .. } | LockError::NotConfigured { .. });
        assert!(typed, "{error}");
    }
}

#[tokio::test]
async fn connects_with_a_user_and_a_password() {
    let server = Server::builder().password("secret").start().await;
    let mut redis = server.connection().await;
    run(&mut redis, "ACL SETUSER b@b on >p:/@%w? ~* +@all").await;
    let urls = [
        server.url(),
        server.url_as("default", "secret"),
        server.url_as("b%40b", "p%3A%2F%40%25w%3F"),
    ];
    join_all(urls.map(async |url| {
        let locks = LockManager::connect(&url).await.unwrap();
        locks_in(&locks, &server, &url, 0).await;
    }))
    .await;
}

#[tokio::test]
async fn connects_to_a_unix_socket() {
    let server = Server::builder().config("unixsocket redis.sock").start().await;
    let mut redis = server.connection().await;
    run(&mut redis, "ACL SETUSER app on >sw0rdf1sh ~* +@all").await;
    let path = server.dir().join("redis.sock");
    let path = path.to_str().unwrap();
    let queries = [("", 0), ("?db=2", 2), ("?db=2&user=app&pass=sw0rdf1sh", 2)];
    join_all(queries.map(async |(query, db)| {
        let locks = LockManager::connect(format!("redis+unix://{path}{query}")).await.unwrap();
        locks_in(&locks, &server, &format!("k{query}"), db).await;
        assert!(format!("{locks:?}").contains(path) && !format!("{locks:?}").contains("sw0rd"));
    }))
    .await;
}

#[tokio::test]
async fn keeps_the_memory_of_managers_apart() {
    let one = LockManager::connect("memory://").await.unwrap();
    let other = LockManager::connect("memory://").await.unwrap();
    let _here = one.lock("k").await.unwrap();
    assert!(one.clone().lock("k").await.unwrap_err().is_busy());
    let _there = other.lock("k").await.unwrap();
}

#[tokio::test]
async fn connects_with_a_redis_client() {
    let server = Server::builder().password("secret").start().await;
    join_all(["", "?protocol=resp2", "?protocol=resp3"].map(async |query| {
        let client = Client::open(format!("{}/5{query}", server.url())).unwrap();
        let locks = LockManager::connect(client).await.unwrap();
        locks_in(&locks, &server, &format!("k{query}"), 5).await;
        let name = format!("{locks:?}");
        assert!(name.contains(&server.addr().to_string()) && !name.contains("secret"), "{name}");
    }))
    .await;
}

#[tokio::test]
async fn connects_with_a_client_of_a_missing_server() {
    let mut server = Server::start().await;
    let client = Client::open(server.url()).unwrap();
    server.kill();
    let error = LockManager::connect(client.clone()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    server.restart().await;
    let connected = async || LockManager::connect(client.clone()).await.is_ok();
    eventually("the server is reachable", SOON, connected).await;
}
