//! Helpers of the tests of this package.

use std::future::Future;
use std::time::Duration;

pub(crate) use harness::tick;
use harness::{Server, eventually};
use lock_runtime::LockManager;
use redis::AsyncTypedCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::sync::OnceCell;

/// The limit for what should happen soon, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(5);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Starts a server and returns it with a manager that has used it and a connection to inspect it.
pub(crate) async fn setup() -> (Server, LockManager, MultiplexedConnection) {
    let server = Server::start().await;
    let locks = connect(&server).await;
    let redis = server.connection().await;
    (server, locks, redis)
}

/// Returns a manager whose server knows the scripts.
async fn connect(server: &Server) -> LockManager {
    let locks = LockManager::connect(server.url()).await.unwrap();
    locks.lock("warm").await.unwrap().release().await.unwrap();
    locks
}

/// Returns the server whose manager is installed, the same for all tests.
pub(crate) async fn server() -> &'static Server {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    SERVER
        .get_or_init(async || {
            let server = Server::start().await;
            connect(&server).await.install();
            server
        })
        .await
}

/// As [`harness::locking`], on the installed server.
pub(crate) async fn locking<T>(key: &str, call: impl Future<Output = T>) -> T {
    harness::locking(server().await, key, call).await
}

/// As [`harness::holding`], on the installed server.
pub(crate) async fn holding<T>(key: &str, call: impl Future<Output = T>) -> T {
    harness::holding(server().await, key, call).await
}

/// Writes the key as a holder in another program would.
pub(crate) async fn occupy(redis: &mut MultiplexedConnection, key: &str, ttl: Duration) {
    let ttl = u64::try_from(ttl.as_millis()).unwrap();
    let mut set = redis::cmd("SET");
    set.arg(key).arg("another program").arg("NX").arg("PX").arg(ttl);
    set.exec_async(redis).await.unwrap();
}

/// Waits until `key` does not exist.
pub(crate) async fn wait_until_absent(
    redis: &mut MultiplexedConnection,
    key: &str,
    limit: Duration,
) {
    let what = format!("{key} is gone");
    eventually(&what, limit, async || !redis.exists(key).await.unwrap()).await;
}
