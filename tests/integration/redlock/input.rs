//! Invalid lists of servers.

use std::time::Instant;

use lock_runtime::{LockError, LockManager};
use redis::AsyncTypedCommands as _;

use crate::support::{Group, SOON, durable};

#[tokio::test]
async fn rejects_lists_without_a_clear_majority() {
    for (url, text) in [
        ("redlock://", "host"),
        ("redlock://:sesame@a", "at least 3 servers, and there are 1"),
        ("redlock://:sesame@a,b", "at least 3 servers, and there are 2"),
        ("redlock://:sesame@a,b,c,d", "an odd number of at least 3 servers, and there are 4"),
        ("redlock://:sesame@a,b,a", "redis://a:6379/0 is named twice"),
        ("redlock://:sesame@a:1,b:2,a:1", "redis://a:1/0 is named twice"),
        ("redlock://:sesame@a,b,c:x", "cannot be used"),
        ("redlock://:sesame@a,,c", "an empty host"),
        ("redlock://:sesame@a,b,c/x", "database"),
    ] {
        let began = Instant::now();
        let error = LockManager::connect(url).await.unwrap_err();
        assert!(began.elapsed() < SOON, "{url}");
        assert!(matches!(error, LockError::NotConfigured { .. }), "{url}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(text) && !shown.contains("sesame"), "{url}: {error}");
    }
}

#[tokio::test]
async fn uses_the_password_and_database_for_all_servers() {
    let group = Group::start_with((0..3).map(|_| durable().password("sesame"))).await;
    let hosts: Vec<_> = group.servers.iter().map(|server| server.addr().to_string()).collect();
    let hosts = hosts.join(",");
    let locks = LockManager::connect(format!("redlock://:sesame@{hosts}/3")).await.unwrap();
    let _guard = locks.lock("k").await.unwrap();
    let client = redis::Client::open(format!("{}/3", group.servers[0].url())).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    assert!(redis.exists("k").await.unwrap());

    let error = LockManager::connect(format!("redlock://:guessed@{hosts}")).await.unwrap_err();
    assert!(error.to_string().contains("check the user and the password"), "{error}");
    assert!(!format!("{error} {error:?}").contains("guessed"), "{error}");
}
