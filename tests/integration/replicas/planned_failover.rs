//! A planned failover without sentinels: clients stay connected to the demoted master, which
//! delivers the push messages that its new master replicates.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use harness::{Proxy, Server, eventually, run};
use lock_runtime::{LockManager, LockRequest};
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use crate::support::{SOON, ms, wait_for_waiters};

/// Waiters whose connections stay, and those that reconnect to the new master.
const STAY: usize = 6;
const RECONNECT: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Way {
    Failover,
    ReplicaOf,
}

impl Way {
    /// Promotes the replica and demotes the master to its replica.
    async fn promote(self, master: &mut MultiplexedConnection, replica: &Server) {
        let port = replica.port();
        if matches!(self, Self::Failover) {
            run(master, &format!("FAILOVER TO 127.0.0.1 {port}")).await;
        } else {
            run(&mut replica.connection().await, "REPLICAOF NO ONE").await;
            run(master, &format!("REPLICAOF 127.0.0.1 {port}")).await;
        }
        eventually("the old master replicates the new one", SOON * 2, async || {
            let info: String =
                redis::cmd("INFO").arg("replication").query_async(master).await.unwrap();
            info.contains("role:slave") && info.contains("master_link_status:up")
        })
        .await;
    }
}

/// The number of running bodies, and the fences of all grants.
#[derive(Default)]
struct Turns {
    running: AtomicU32,
    fences: Mutex<Vec<u64>>,
}

impl Turns {
    async fn take(&self, request: LockRequest) {
        let guard = request.ttl(ms(30_000)).wait(SOON * 6).await.unwrap();
        assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "two holders");
        self.fences.lock().unwrap().push(guard.fence().get());
        sleep(ms(100)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        guard.release().await.unwrap();
    }
}

/// Connects managers to `target`, each through its own proxy.
async fn managers(count: usize, target: SocketAddr) -> Vec<(LockManager, Proxy)> {
    join_all((0..count).map(async |_| {
        let proxy = Proxy::start(target);
        (LockManager::connect(proxy.url()).await.unwrap(), proxy)
    }))
    .await
}

async fn fail_over_while_some_stay(way: Way) {
    let master = Server::start().await;
    let of_master = format!("replicaof 127.0.0.1 {}", master.port());
    let replica = Server::builder().config(&of_master).start().await;
    master.wait_for_replicas(1).await;
    let mut redis = master.connection().await;
    let (holder, stay) = (managers(1, master.addr()).await, managers(STAY, master.addr()).await);
    let reconnect = managers(RECONNECT, master.addr()).await;

    let guard = holder[0].0.lock("k").ttl(ms(30_000)).await.unwrap();
    let turns = Turns { fences: Mutex::new(vec![guard.fence().get()]), ..Turns::default() };
    let waiters = stay.iter().chain(&reconnect).map(|(locks, _)| turns.take(locks.lock("k")));
    let release = async {
        wait_for_waiters(&mut redis, "k", STAY + RECONNECT).await;
        way.promote(&mut redis, &replica).await;
        for (_, proxy) in &stay {
            proxy.redirect_to(replica.addr());
        }
        for (_, proxy) in holder.iter().chain(&reconnect) {
            proxy.redirect_to(replica.addr());
            proxy.cut();
        }
        let mut redis = replica.connection().await;
        eventually("waiters subscribe at the new master", SOON, async || {
            let inboxes: Vec<String> =
                redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut redis).await.unwrap();
            inboxes.len() >= RECONNECT
        })
        .await;
        guard.release().await
    };
    let (released, _) = tokio::join!(release, join_all(waiters));
    released.unwrap();
    let mut fences = turns.fences.into_inner().unwrap();
    assert_eq!(fences.len(), 1 + STAY + RECONNECT);
    assert!(fences.is_sorted(), "{fences:?}");
    fences.dedup();
    assert_eq!(fences.len(), 1 + STAY + RECONNECT, "a fence was given twice: {fences:?}");
}

#[tokio::test]
async fn f79_grants_one_holder_after_failover_to_a_replica() {
    fail_over_while_some_stay(Way::Failover).await;
}

#[tokio::test]
async fn f79_grants_one_holder_after_replicaof_by_hand() {
    fail_over_while_some_stay(Way::ReplicaOf).await;
}
