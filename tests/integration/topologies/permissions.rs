//! Users with exactly the permissions of the guide, and changes of their passwords.

use harness::{Cluster, Sentinels, Server, redlock_url, run};
use lock_runtime::{Builder, LockManager, LossCause};

use crate::support::{SOON, durable, ms};

/// Returns the permissions in the guide after `what`.
fn permissions(what: &str) -> String {
    let guide = include_str!("../../../lock-runtime/README.md");
    let (_, rest) = guide.split_once(what).expect("the guide contains the text");
    let permissions = rest.split('`').nth(1).expect("permissions follow");
    permissions.split_whitespace().collect::<Vec<_>>().join(" ")
}

const ALL: &str = "may do no more than needed:";

/// Runs a command on each of the servers.
async fn run_on_all(servers: &[Server], command: &str) {
    for server in servers {
        run(&mut server.connection().await, command).await;
    }
}

/// Adds a user `app` with the password `old` and exactly these permissions.
async fn add_user(servers: &[Server], permissions: &[&str]) {
    let permissions = permissions.join(" ");
    run_on_all(servers, &format!("ACL SETUSER app on >old resetchannels -@all {permissions}"))
        .await;
}

fn login(url: &str, password: &str) -> String {
    url.replacen("://", &format!("://app:{password}@"), 1)
}

/// Acquires a lock, finds it busy, hands it over, renews and releases it.
async fn exercise(locks: &LockManager) {
    let guard = locks.lock("order:1").ttl(SOON).wait(SOON).await.unwrap();
    assert!(locks.lock("order:1").await.unwrap_err().is_busy());
    let waiter = locks.lock("order:1").ttl(ms(3_000)).wait(SOON).into_future();
    let (handed_over, released) = tokio::join!(waiter, guard.release());
    released.unwrap();
    let guard = handed_over.unwrap();
    guard.run(tokio::time::sleep(ms(3_200))).await.unwrap();
    guard.release().await.unwrap();
}

/// Changes the password: a process with the old one works as long as it is connected.
async fn rotate_password(builder: &Builder, url: &str, servers: &[Server], locks: LockManager) {
    let guard = locks.lock("order:1").ttl(ms(3_000)).wait(SOON).await.unwrap();
    run_on_all(servers, "ACL SETUSER app >new").await;
    let next = builder.clone().connect(login(url, "new")).await.unwrap();
    run_on_all(servers, "ACL SETUSER app <old").await;
    guard.run(tokio::time::sleep(ms(3_200))).await.unwrap();
    guard.release().await.unwrap();
    exercise(&next).await;

    let guard = locks.lock("order:2").ttl(ms(3_000)).wait(SOON).await.unwrap();
    run_on_all(servers, "CLIENT KILL USER app").await;
    let error = locks.lock("order:1").wait(SOON * 6).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
    assert_eq!(guard.lost().await, LossCause::Expired);
    exercise(&next).await;
}

#[tokio::test]
async fn f51_works_with_minimal_permissions_on_one_server() {
    let servers = [Server::start().await];
    add_user(&servers, &[&permissions(ALL)]).await;
    let (builder, url) = (LockManager::builder(), servers[0].url());
    let locks = builder.clone().connect(login(&url, "old")).await.unwrap();
    exercise(&locks).await;
    rotate_password(&builder, &url, &servers, locks).await;
}

#[tokio::test]
async fn f51_works_with_minimal_permissions_and_sentinels() {
    let sentinels = Sentinels::start("orders").await;
    let (servers, builder) = (sentinels.servers(), LockManager::builder().replicas(2));
    add_user(servers, &[&permissions(ALL), &permissions("with [`Builder::replicas`]:")]).await;
    add_user(sentinels.sentinels(), &[&permissions("a user of the sentinels:")]).await;
    let url = format!("{}?sentinel_username=app&sentinel_password=old", sentinels.url());
    let locks = builder.clone().connect(login(&url, "old")).await.unwrap();
    exercise(&locks).await;
    let wrong = login(&url.replace("sentinel_password=old", "sentinel_password=new"), "old");
    let error = LockManager::connect(wrong).await.unwrap_err().to_string();
    assert!(error.contains("WRONGPASS") && error.contains("`sentinel_password`"), "{error}");
    sentinels.fail_over().await;
    sentinels.wait_until_healthy().await;
    locks.lock("order:1").wait(SOON * 4).await.unwrap().release().await.unwrap();
    exercise(&locks).await; // renewals use their own connection
    rotate_password(&builder, &url, servers, locks).await;
}

#[tokio::test]
async fn f51_works_with_minimal_permissions_in_a_cluster() {
    let cluster = Cluster::start().await;
    add_user(cluster.nodes(), &[&permissions(ALL), &permissions("in a cluster:")]).await;
    let (builder, url) = (LockManager::builder(), cluster.url());
    let locks = builder.clone().connect(login(&url, "old")).await.unwrap();
    exercise(&locks).await;
    let from = cluster.owner("order:1").await;
    let to = (from + 1) % 3;
    let guard = locks.lock("order:1").ttl(ms(3_000)).await.unwrap();
    cluster.begin_move("order:1", from, to).await;
    cluster.move_keys("order:1", from, to).await;
    guard.run(tokio::time::sleep(ms(3_200))).await.unwrap();
    cluster.end_move("order:1", from, to).await;
    guard.release().await.unwrap();
    rotate_password(&builder, &url, cluster.nodes(), locks).await;
}

#[tokio::test]
async fn f51_works_with_minimal_permissions_and_redlock() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(durable().start().await);
    }
    add_user(&servers, &[&permissions(ALL), &permissions("with redlock:")]).await;
    let (builder, url) = (LockManager::builder(), redlock_url(servers.iter().map(Server::addr)));
    let locks = builder.clone().connect(login(&url, "old")).await.unwrap();
    exercise(&locks).await;
    rotate_password(&builder, &url, &servers, locks).await;
}
