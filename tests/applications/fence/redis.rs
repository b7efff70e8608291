//! Fences in a hash of Redis.

use harness::Server;
use redis::{AsyncTypedCommands as _, Script};

use super::{ARRIVALS, CHECK};

#[tokio::test]
async fn rejects_late_writes_to_a_hash() {
    let server = Server::start().await;
    let mut redis = server.connection().await;
    let check = Script::new(CHECK);
    let mut expected = String::new();
    for (nth, (fence, accepted)) in ARRIVALS.into_iter().enumerate() {
        let write = format!("write {nth}");
        let mut call = check.key("order:42");
        call.arg(fence).arg("state").arg(&write).arg("by").arg(nth);
        let written: bool = call.invoke_async(&mut redis).await.unwrap();
        assert_eq!(written, accepted, "{write} with {fence}");
        if accepted {
            expected = write;
            assert_eq!(redis.hget("order:42", "fence").await.unwrap(), Some(fence.to_string()));
            assert_eq!(redis.hget("order:42", "by").await.unwrap(), Some(nth.to_string()));
        }
        assert_eq!(redis.hget("order:42", "state").await.unwrap().as_ref(), Some(&expected));
    }
}

#[tokio::test]
async fn stores_a_fence_without_fields() {
    let server = Server::start().await;
    let mut redis = server.connection().await;
    let check = Script::new(CHECK);
    let mut call = check.key("order:42");
    assert!(call.arg(2).invoke_async::<bool>(&mut redis).await.unwrap());
    assert_eq!(redis.hlen("order:42").await.unwrap(), 1);
    let mut late = check.key("order:42");
    late.arg(1).arg("state").arg("late");
    assert!(!late.invoke_async::<bool>(&mut redis).await.unwrap());
}

#[tokio::test]
async fn rejects_a_write_without_a_number() {
    let server = Server::start().await;
    let mut redis = server.connection().await;
    let check = Script::new(CHECK);
    for fence in ["", "order:42", "nil"] {
        let mut call = check.key("order:42");
        call.arg(fence).arg("state").arg("paid");
        call.invoke_async::<bool>(&mut redis).await.unwrap_err();
        assert!(!redis.exists("order:42").await.unwrap(), "{fence:?}");
    }
}
