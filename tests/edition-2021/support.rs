//! Helpers of the tests of this package.

use std::future::Future;

pub(crate) use harness::tick;
use harness::Server;
use lock_runtime::LockManager;
use tokio::sync::OnceCell;

/// Returns the server whose manager is installed, the same for all tests.
async fn server() -> &'static Server {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    SERVER
        .get_or_init(|| async {
            let server = Server::start().await;
            let locks = LockManager::connect(server.url()).await.unwrap();
            locks.lock("warm").await.unwrap().release().await.unwrap();
            locks.install();
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
