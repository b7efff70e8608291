//! Discovery of the master.

use harness::Sentinels;
use lock_runtime::{LockError, LockManager};

use crate::support::ms;

#[tokio::test]
async fn reports_a_service_unknown_to_the_sentinels() {
    let sentinels = Sentinels::start("orders").await;
    let url = sentinels.url().replace("/orders", "/order");
    let error = LockManager::connect(url).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("know no service `order`"), "{error}");
}

#[tokio::test]
async fn works_with_one_sentinel_of_three() {
    let sentinels = Sentinels::start("orders").await;
    sentinels.sentinels()[0].kill();
    sentinels.sentinels()[2].pause();
    let locks = LockManager::builder().timeout(ms(300)).connect(sentinels.url()).await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
    sentinels.sentinels()[1].kill();
    let error = LockManager::builder().timeout(ms(300)).connect(sentinels.url()).await.unwrap_err();
    assert!(error.to_string().contains("no sentinel replies"), "{error}");
}
