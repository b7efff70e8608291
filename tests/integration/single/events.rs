//! The tracing events of a lock's life. Each test records them in a process of its own.

use harness::{Mode, Proxy, Server};
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands;
use tokio::time::{sleep, timeout};
use tracing::Level;

use crate::support::{Capture, Event, SOON, in_own_process, ms, occupy, setup};

#[redis_lock(key = "order:<id>", ttl = "1s", wait = "100ms", manager = locks)]
async fn pay(locks: &LockManager, id: u64, takes: u64) -> Result<(), LockError> {
    sleep(ms(takes)).await;
    Ok(())
}

/// Waits for the event `message` with `key`, and checks the fields that every event has.
async fn expect(capture: &Capture, key: &str, message: &str) -> Event {
    let find = || capture.with_key(key).into_iter().find(|event| event.message() == message);
    let event = timeout(SOON, async {
        loop {
            match find() {
                Some(event) => return event,
                None => sleep(ms(5)).await,
            }
        }
    });
    let event = event.await.unwrap_or_else(|_| {
        panic!("no {message:?} among {:#?}", capture.with_key(key));
    });
    assert_eq!(event.fields.get("template").map(String::as_str), Some("order:<id>"), "{event:?}");
    assert!(event.fields.contains_key("waited"), "{event:?}");
    event
}

#[tokio::test]
async fn logs_acquire_renewal_and_release() {
    if !in_own_process("single::events::logs_acquire_renewal_and_release").await {
        return;
    }
    let capture = Capture::install();
    let (_server, locks, _) = setup().await;
    pay(&locks, 1, 900).await.unwrap();
    for message in ["acquired", "renewed", "released"] {
        let event = expect(&capture, "order:1", message).await;
        assert!(event.level > Level::INFO, "{event:?}");
    }
    let order: Vec<_> =
        capture.with_key("order:1").iter().map(|e| e.message().to_owned()).collect();
    assert_eq!(order.first().unwrap(), "acquired");
    assert_eq!(order.last().unwrap(), "released");
    assert_eq!(order.iter().filter(|message| *message == "acquired").count(), 1);
}

#[tokio::test]
async fn logs_a_busy_lock() {
    if !in_own_process("single::events::logs_a_busy_lock").await {
        return;
    }
    let capture = Capture::install();
    let (_server, locks, mut redis) = setup().await;
    occupy(&mut redis, "order:1", ms(60_000)).await;
    pay(&locks, 1, 0).await.unwrap_err();
    let event = expect(&capture, "order:1", "busy").await;
    assert!(event.fields["holder"].contains("another program"), "{event:?}");
    assert!(capture.with_key("order:1").iter().all(|event| event.message() == "busy"));
}

#[tokio::test]
async fn logs_the_time_of_a_wait() {
    if !in_own_process("single::events::logs_the_time_of_a_wait").await {
        return;
    }
    let capture = Capture::install();
    let (_server, locks, mut redis) = setup().await;
    occupy(&mut redis, "order:1", ms(60)).await;
    pay(&locks, 1, 0).await.unwrap();
    for message in ["acquired", "released"] {
        let waited = expect(&capture, "order:1", message).await.fields["waited"].clone();
        let millis: f64 = waited.strip_suffix("ms").expect(&waited).parse().expect(&waited);
        assert!((50.0..1_000.0).contains(&millis), "{waited}");
    }
}

#[tokio::test]
async fn logs_a_loss() {
    if !in_own_process("single::events::logs_a_loss").await {
        return;
    }
    let capture = Capture::install();
    let (_server, locks, mut redis) = setup().await;
    let (outcome, ()) = tokio::join!(pay(&locks, 1, 2_000), async {
        sleep(ms(50)).await;
        redis.del("order:1").await.unwrap();
    });
    assert!(outcome.unwrap_err().is_lost());
    let event = expect(&capture, "order:1", "lost").await;
    assert_eq!(event.level, Level::WARN);
    assert!(event.fields.contains_key("cause"), "{event:?}");
    let losses =
        capture.with_key("order:1").iter().filter(|event| event.message() == "lost").count();
    assert_eq!(losses, 1, "{:#?}", capture.with_key("order:1"));
}

#[tokio::test]
async fn logs_a_release_in_the_background() {
    if !in_own_process("single::events::logs_a_release_in_the_background").await {
        return;
    }
    let capture = Capture::install();
    let (_server, locks, _) = setup().await;
    timeout(ms(100), pay(&locks, 1, 2_000)).await.unwrap_err();
    expect(&capture, "order:1", "released").await;
}

#[tokio::test]
async fn logs_an_abandoned_acquire() {
    if !in_own_process("single::events::logs_an_abandoned_acquire").await {
        return;
    }
    let capture = Capture::install();
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    proxy.to_client(Mode::Hold);
    timeout(ms(100), pay(&locks, 1, 0)).await.unwrap_err();
    proxy.to_client(Mode::Pass);
    expect(&capture, "order:1", "abandoned").await;
    assert!(capture.with_key("order:1").iter().all(|event| event.message() != "acquired"));
}

#[tokio::test]
async fn logs_failures() {
    if !in_own_process("single::events::logs_failures").await {
        return;
    }
    let capture = Capture::install();
    let server = Server::builder().password("sw0rdf1sh").start().await;
    let locks = LockManager::builder().timeout(ms(100)).connect(server.url()).await.unwrap();
    let (outcome, ()) = tokio::join!(pay(&locks, 1, 2_000), async {
        sleep(ms(50)).await;
        server.kill();
    });
    assert!(outcome.unwrap_err().is_lost());
    pay(&locks, 2, 0).await.unwrap_err();

    let store = server.addr().to_string();
    for (key, message) in
        [("order:1", "renewal failed, will be retried"), ("order:2", "acquire failed")]
    {
        let event = expect(&capture, key, message).await;
        assert_eq!(event.level, Level::WARN);
        assert!(event.fields["error"].contains(&store) || event.fields["store"].contains(&store));
    }
    let all = format!("{:?}{:?}", capture.with_key("order:1"), capture.with_key("order:2"));
    assert!(!all.contains("sw0rdf1sh"), "{all}");
}

#[tokio::test]
async fn omits_the_template_without_the_attribute() {
    if !in_own_process("single::events::omits_the_template_without_the_attribute").await {
        return;
    }
    let capture = Capture::install();
    let (_server, locks, _) = setup().await;
    locks.lock("order:1").await.unwrap().release().await.unwrap();
    let events = capture.with_key("order:1");
    let messages: Vec<_> = events.iter().map(Event::message).collect();
    assert_eq!(messages, ["acquired", "released"]);
    assert!(events.iter().all(|event| !event.fields.contains_key("template")));
    assert!(events.iter().all(|event| event.fields.contains_key("waited")));
}
