//! Many clients that request the same lock.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use harness::{CommandLog, Server, eventually};
use lock_runtime::{LockGuard, LockManager};
use redis::AsyncTypedCommands as _;

use crate::support::{AT_ONCE, Group, SOON, is_script, ms, occupy};

const CONTENDERS: usize = 20;

/// Starts five servers, and managers that compete for their votes.
async fn start() -> (Group, Vec<LockManager>) {
    let group = Group::start(5).await;
    let mut managers = Vec::new();
    for _ in 0..CONTENDERS {
        managers.push(group.connect().await);
    }
    (group, managers)
}

/// Counts the tokens in requests for votes up to that of the winner.
fn rounds_before(log: &CommandLog, key: &str, winner: &str) -> usize {
    let entries = log.entries();
    let scripts = entries.iter().filter(|entry| is_script(entry) && entry.has(key));
    let takes = scripts.filter(|entry| entry.args.len() == 10).map(|entry| entry.args[7].as_str());
    takes.take_while(|token| *token != winner).collect::<HashSet<_>>().len()
}

/// Returns the token on most servers; votes with other tokens are being released.
fn majority(values: Vec<Option<String>>) -> String {
    let tokens: Vec<_> = values.into_iter().flatten().collect();
    let count = |token: &&String| tokens.iter().filter(|other| other == token).count();
    tokens.iter().max_by_key(count).unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f87_elects_one_of_many_contenders_within_ten_rounds() {
    let (mut group, managers) = start().await;
    for round in 0..5 {
        let key = format!("f87:{round}");
        let logs: Vec<_> = group.servers.iter().map(Server::log).collect();
        let (won, mut winners) = tokio::sync::mpsc::channel::<LockGuard>(CONTENDERS);
        let contend = join_all(managers.iter().map(async |locks| {
            let guard = locks.lock(&*key).ttl(SOON * 6).wait(SOON * 12).await.unwrap();
            won.send(guard).await.unwrap();
        }));
        let judge = async {
            let mut last = None;
            for place in 0..CONTENDERS {
                let guard = winners.recv().await.unwrap();
                if place == 0 {
                    let token = majority(group.values(&key).await);
                    logs[0].settle().await;
                    let rounds = rounds_before(&logs[0], &key, &token);
                    assert!(rounds <= 10 * CONTENDERS, "{rounds} attempts before the first winner");
                }
                assert!(Some(guard.fence()) > last);
                last = Some(guard.fence());
                guard.release().await.unwrap();
            }
        };
        tokio::join!(contend, judge);
    }
}

/// All other contenders give up once a race has its first winner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f87_decides_a_hundred_races_within_ten_rounds() {
    let (mut group, managers) = start().await;
    let log = group.servers[0].log();
    for race in 0..100 {
        let key = format!("race:{race}");
        let requests = managers
            .iter()
            .map(|locks| locks.lock(&*key).ttl(SOON * 6).wait(SOON * 6).into_future());
        let (guard, ..) = select_all(requests.map(Box::pin)).await;
        let guard = guard.unwrap();
        let token = majority(group.values(&key).await);
        log.settle().await;
        let rounds = rounds_before(&log, &key, &token);
        assert!(rounds <= 10 * CONTENDERS, "{rounds} attempts before the winner of {key}");
        guard.release().await.unwrap();
    }
    group.wait_until_empty(SOON).await;
}

#[tokio::test]
async fn notifies_waiters_of_a_release() {
    let mut group = Group::start(5).await;
    let (locks, other) = (group.connect().await, group.connect().await);
    let mut took = Duration::ZERO;
    for _ in 0..6 {
        let guard = locks.lock("k").await.unwrap();
        let waiting = tokio::spawn({
            let request = other.lock("k").wait(SOON * 2);
            async move { (request.await.unwrap(), Instant::now()) }
        });
        // By then, pauses are up to a second long.
        tokio::time::sleep(ms(1_600)).await;
        let began = Instant::now();
        guard.release().await.unwrap();
        let (guard, granted) = waiting.await.unwrap();
        took += granted - began;
        guard.release().await.unwrap();
    }
    assert!(took < ms(600), "{took:?} for six of them");

    let channels = async |redis: &mut _| {
        let query = redis::cmd("PUBSUB").arg("CHANNELS").arg("lock-runtime:free:*").take();
        query.query_async::<Vec<String>>(redis).await.unwrap().len()
    };
    for redis in &mut group.redis {
        eventually("no client is subscribed", SOON * 2, async || channels(redis).await == 0).await;
    }
}

#[tokio::test]
async fn polls_without_push_messages() {
    let group = Group::start(3).await;
    let url = format!("{}?protocol=resp2", group.url());
    let (locks, other) = (group.connect().await, LockManager::connect(url).await.unwrap());
    let guard = locks.lock("k").await.unwrap();
    let (next, released) = tokio::join!(other.lock("k").wait(SOON), async {
        tokio::time::sleep(ms(300)).await;
        guard.release().await
    });
    released.unwrap();
    next.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn uses_a_new_token_in_each_round() {
    let mut group = Group::start(3).await;
    let locks = group.connect().await;
    let log = group.servers[0].log();
    for redis in &mut group.redis[1..] {
        occupy(redis, "k", ms(10_000)).await;
    }
    let began = Instant::now();
    let error = locks.lock("k").wait(ms(400)).await.unwrap_err();
    let took = began.elapsed();
    assert!(error.is_busy() && error.to_string().contains("another program"), "{error}");
    assert!(took >= ms(400) && took < ms(1_500), "{took:?}");
    log.settle().await;
    let commands = log.commands_on("k");
    let votes = commands.iter().filter(|entry| entry.is("SET"));
    let tokens: HashSet<_> = votes.clone().map(|entry| &entry.args[2]).collect();
    assert!(tokens.len() >= 3 && tokens.len() == votes.count(), "{tokens:?}");
    for redis in &mut group.redis[1..] {
        redis.del("k").await.unwrap();
    }
    group.wait_until_empty(AT_ONCE).await;
}

#[tokio::test]
async fn reports_the_holder_after_a_wait_in_vain() {
    let group = Group::start(3).await;
    let locks = group.connect().await;
    let _guard = locks.lock("k").ttl(SOON * 6).await.unwrap();
    let began = Instant::now();
    let error = locks.lock("k").wait(ms(700)).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    assert!((ms(700)..ms(1_500)).contains(&began.elapsed()), "{:?}", began.elapsed());
}
