//! Calls through other names of the runtime. `::lock_runtime` does not exist here.

use harness::Server;
use renamed::LockError;
use renamed::locks::LockManager;

#[renamed::redis_lock(key = "in:<id>", ttl = "5s", crate = renamed::locks)]
async fn reexported(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::test]
async fn locks_under_other_names_and_without_cfg_test() {
    let server = Server::start().await;
    LockManager::connect(server.url()).await.unwrap().install();
    let log = server.log();

    assert_eq!(renamed::renamed(1).await.unwrap(), 1);
    assert_eq!(reexported(1).await.unwrap(), 1);
    assert_eq!(renamed::documented(1).await.unwrap(), 1);
    assert_eq!(renamed::level(10).await.unwrap(), 12);
    assert_eq!(renamed::part(1, 2).await.unwrap(), 3);

    log.settle().await;
    for key in ["re:1", "in:1", "doc:1", "lvl:10", "part:1"] {
        let mut commands = log.commands_on(key);
        commands.retain(|command| command.is("SET") || command.is("DEL"));
        assert_eq!(commands.len(), 2, "{key}");
    }
}
