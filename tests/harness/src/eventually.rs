//! Polling of a condition.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Polls `condition` every few milliseconds until it is true.
///
/// ```ignore
/// eventually("the key is gone", Duration::from_secs(1), async || {
///     !redis.exists::<_, bool>("k").await.unwrap()
/// })
/// .await;
/// ```
///
/// # Panics
///
/// When `limit` has passed; the message contains `what`.
pub async fn eventually(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !condition().await {
            sleep(Duration::from_millis(3)).await;
        }
    };
    assert!(timeout(limit, wait).await.is_ok(), "not within {limit:?}: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn returns_when_the_condition_holds() {
        let mut asked = 0;
        eventually("third time", Duration::from_secs(5), async || {
            asked += 1;
            asked == 3
        })
        .await;
        assert_eq!(asked, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "not within 20ms: the impossible")]
    async fn names_the_condition_when_the_limit_passes() {
        eventually("the impossible", Duration::from_millis(20), async || false).await;
    }
}
