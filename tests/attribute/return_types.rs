//! Return types and inference.

use lock_runtime::redis_lock;

use super::support::{AppError, exists, holding, locking, server, work};

#[redis_lock(key = "scan:<id>", ttl = "5s")]
async fn scan(id: u64) -> Result<impl Iterator<Item = u64>, AppError> {
    Ok((0..id).filter(|n| n % 2 == 0))
}

#[tokio::test]
async fn returns_an_opaque_value_that_outlives_the_lock() {
    let numbers = locking("scan:7", scan(7)).await.unwrap();
    assert!(!exists(&mut server().await.connection().await, "scan:7").await);
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 2, 4, 6]);
}

type Job = Box<dyn Fn(u64) -> u64 + Send + Sync>;
#[redis_lock(key = "job:<id>", ttl = "5s")]
async fn job(id: u64) -> Result<Job, AppError> {
    Ok(Box::new(move |n| n + id))
}

#[tokio::test]
async fn coerces_a_closure_to_a_trait_object() {
    assert_eq!(locking("job:7", job(7)).await.unwrap()(1), 8);
}

#[redis_lock(key = "a:<id>", ttl = "5s")]
async fn a(id: u64) -> std::result::Result<u64, AppError> {
    Ok(id)
}
#[redis_lock(key = "b:<id>", ttl = "5s")]
async fn b(id: u64) -> anyhow::Result<u64> {
    Ok(id)
}
#[redis_lock(key = "c:<id>", ttl = "5s")]
async fn c(id: u64) -> std::io::Result<u64> {
    Ok(id)
}

#[tokio::test]
async fn accepts_results_under_any_name() {
    assert_eq!(locking("a:1", a(1)).await.unwrap(), 1);
    assert_eq!(locking("b:1", b(1)).await.unwrap(), 1);
    assert_eq!(locking("c:1", c(1)).await.unwrap(), 1);
}

#[redis_lock(key = "sync:<id>", ttl = "5s")]
async fn sync(id: u64) -> Result<(), AppError> {
    let n: u64 = "7".parse()?;
    work(id + n).await?;
    Ok(())
}

#[tokio::test]
async fn converts_errors_of_question_marks() {
    holding("sync:1", sync(1)).await.unwrap();
}
