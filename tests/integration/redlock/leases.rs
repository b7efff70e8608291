//! Leases that some servers lose.

use futures_util::future::join_all;
use lock_runtime::LossCause;
use redis::AsyncTypedCommands as _;
use tokio::time::{sleep, timeout};

use crate::support::{Group, SOON, ms};

#[tokio::test]
async fn f89_loses_a_lease_that_a_majority_has_lost() {
    let mut group = Group::start(5).await;
    let locks = group.connect().await;
    let guard = locks.lock("f89").ttl(ms(3_000)).await.unwrap();
    group.wait_until_held_on("f89", 5).await;
    let work = guard.run(async {
        join_all(group.redis[..3].iter_mut().map(async |redis| redis.pexpire("f89", 1).await)).await
    });
    work.await.unwrap();
    let cause =
        timeout(ms(2_700), guard.lost()).await.expect("the loss is reported before the lease ends");
    assert_eq!(cause, LossCause::Taken);
    group.wait_until_empty(SOON).await;
}

#[tokio::test]
async fn f89_keeps_a_lease_that_a_majority_has() {
    let mut group = Group::start(5).await;
    let locks = group.connect().await;
    let guard = locks.lock("f89").ttl(ms(1_000)).await.unwrap();
    group.wait_until_held_on("f89", 5).await;
    for redis in &mut group.redis[..2] {
        redis.pexpire("f89", 1).await.unwrap();
    }
    guard.run(sleep(ms(2_500))).await.unwrap();
    assert_eq!(group.values("f89").await.iter().flatten().count(), 3);
    guard.release().await.unwrap();
    group.wait_until_empty(SOON).await;
}
