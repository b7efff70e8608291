//! Servers that were restarted, replaced or listed twice.

use harness::{Proxy, Server, eventually, redlock_url};
use lock_runtime::LockManager;
use redis::AsyncTypedCommands as _;
use tokio::time::{sleep, timeout};

use crate::support::{Group, SOON, ms};

#[tokio::test]
async fn f85_grants_no_lease_from_a_server_that_lost_its_data() {
    let mut group = Group::start_with((0..5).map(|_| Server::builder())).await;
    let reached = |nodes: [usize; 3], proxies: &[Proxy]| {
        let proxies: Vec<_> = proxies.iter().map(Proxy::addr).collect();
        redlock_url((0..5).map(|node| {
            if nodes.contains(&node) { group.servers[node].addr() } else { proxies[node] }
        }))
    };
    let [a, b] = [[0, 1, 2], [2, 3, 4]].map(|nodes| reached(nodes, &group.proxies));
    for proxy in &group.proxies {
        proxy.refuse();
    }
    let builder = LockManager::builder().timeout(ms(500));
    let (a, b) = (builder.clone().connect(a).await.unwrap(), builder.connect(b).await.unwrap());
    let request = || a.lock("f85").ttl(ms(1_500)).into_future();
    eventually("the servers are old enough", SOON, async || request().await.is_ok()).await;
    let guard = a.lock("f85").ttl(ms(1_500)).wait(SOON).await.unwrap();
    let token = group.values("f85").await[0].clone();

    group.servers[2].restart().await;
    let young = format!("redis://{}/0: started", group.servers[2].addr());
    eventually("the error names the server", SOON, async || {
        let error = b.lock("f85").ttl(ms(1_500)).await.expect_err("no majority").to_string();
        error.contains("2 of 5 servers granted it") && error.contains(&young)
    })
    .await;
    let lease = guard.lease();
    let next = async || {
        let Ok(guard) = b.lock("f85").ttl(ms(1_500)).await else { return false };
        assert!(lease.is_lost(), "two holders");
        std::mem::forget(guard);
        true
    };
    eventually("the next acquire succeeds", SOON * 2, next).await;
    let next = group.redis[3].get("f85").await.unwrap();
    assert!(next.is_some() && next != token, "{next:?}");
}

#[tokio::test]
async fn f85_counts_the_vote_of_a_restarted_persistent_server() {
    let mut group = Group::start(3).await;
    let locks = group.connect().await;
    let guard = locks.lock("f85").ttl(ms(1_500)).await.unwrap();
    group.wait_until_held_on("f85", 3).await;
    group.servers[2].kill();
    group.servers[1].restart().await;
    guard.run(sleep(ms(3_000))).await.unwrap();
    guard.release().await.unwrap();
    let guard = locks.lock("f85").ttl(SOON * 12).await.unwrap();
    guard.release().await.unwrap();
}

/// The new server is older than the ttl and persistent, but has never had the locks.
#[tokio::test]
async fn f85_ignores_the_vote_of_a_new_server_behind_a_name() {
    let mut group = Group::start(4).await;
    eventually("the new server is older than any pause", SOON, async || {
        let info: String = redis::cmd("INFO").query_async(&mut group.redis[3]).await.unwrap();
        (3..10).any(|seconds| info.contains(&format!("uptime_in_seconds:{seconds}\r\n")))
    })
    .await;
    let [one, two, other] = [0, 1, 3].map(|server| group.servers[server].addr());
    let name = &group.proxies[2];
    let locks = LockManager::connect(redlock_url([one, two, name.addr()])).await.unwrap();
    locks.lock("f85").await.unwrap().release().await.unwrap();
    name.redirect_to(other);
    name.cut();
    group.servers[1].kill();
    eventually("the error names the reason", SOON, async || {
        let error = locks.lock("f85").ttl(SOON * 12).await.expect_err("one vote of three");
        error.to_string().contains("replaced another server")
    })
    .await;
    locks.lock("f85").ttl(ms(1_000)).wait(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn f85_reports_when_votes_of_new_servers_count() {
    let group = Group::start_with((0..3).map(|_| Server::builder())).await;
    let locks =
        LockManager::connect(redlock_url(group.servers.iter().map(Server::addr))).await.unwrap();
    let error = locks.lock("k").ttl(SOON * 12).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("count in 6"), "{error}");
    let wait = locks.lock("k").ttl(ms(1_000)).wait(SOON);
    timeout(SOON, wait).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn f86_reports_two_names_of_one_server() {
    let group = Group::start(2).await;
    let [one, other] = [&group.servers[0], &group.servers[1]].map(Server::addr);
    let error =
        LockManager::connect(redlock_url([one, other, group.proxies[0].addr()])).await.unwrap_err();
    assert!(error.to_string().contains("is the same server as redis://"), "{error}");
    assert!(error.to_string().contains(&one.to_string()), "{error}");
}

#[tokio::test]
async fn f86_gives_no_second_vote_to_a_server_behind_two_names() {
    let group = Group::start(2).await;
    group.proxies[0].refuse();
    let [one, other] = [&group.servers[0], &group.servers[1]].map(Server::addr);
    let locks =
        LockManager::connect(redlock_url([one, group.proxies[0].addr(), other])).await.unwrap();
    locks.lock("f86").await.unwrap().release().await.unwrap();
    group.proxies[0].accept();
    locks.lock("f86").await.unwrap().release().await.unwrap();
    let guard = locks.lock("f86").ttl(ms(1_000)).await.unwrap();
    group.servers[1].kill();
    timeout(SOON, guard.lost()).await.expect("one server is no majority");
    let error = locks.lock("f86").await.unwrap_err();
    assert!(error.to_string().contains("is the same server as"), "{error}");
    assert!(group.proxies[0].connections() > 0);
}
