//! A server with a manager and a connection.

use harness::Server;
use lock_runtime::LockManager;
use redis::aio::MultiplexedConnection;

/// Starts a server and returns it with a manager that has used it and a connection to inspect it.
pub(crate) async fn setup() -> (Server, LockManager, MultiplexedConnection) {
    let server = Server::start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    warm_up(&locks).await;
    let redis = server.connection().await;
    (server, locks, redis)
}

/// Takes and releases a lock, so that the server knows the scripts of both.
pub(crate) async fn warm_up(locks: &LockManager) {
    locks.lock("warm").await.unwrap().release().await.unwrap();
}

/// Lists the connections of the server, except `redis` itself and those of command logs.
pub(crate) async fn clients(redis: &mut MultiplexedConnection) -> Vec<String> {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.unwrap();
    let others = list.lines().filter(|c| !c.contains("cmd=client|list") && !c.contains("flags=O"));
    others.map(str::to_owned).collect()
}
