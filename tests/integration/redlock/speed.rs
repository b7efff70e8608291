//! What a majority costs.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{Script, Value};

use super::group::Group;
use crate::kit::ms;

const ROUNDS: u32 = 2_000;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test]
#[ignore = "measures, and does not judge"]
async fn redlock_takes_how_much_longer_than_the_slowest_of_five_servers() {
    let mut group =
        Group::of((0..5).map(|_| super::group::durable().config("appendfsync no"))).await;
    let locks = group.connect().await;
    let script = Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end",
    );
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        locks.lock("ours").ttl(ms(30_000)).await.unwrap().release().await.unwrap();
        ours.push(began.elapsed());
        let began = Instant::now();
        join_all(group.redis.iter_mut().map(async |redis| {
            let mut set = redis::cmd("SET");
            set.arg("raw").arg("token").arg("NX").arg("PX").arg(30_000);
            set.exec_async(redis).await.unwrap();
            let _: Value = script.key("raw").arg("token").invoke_async(redis).await.unwrap();
        }))
        .await;
        raw.push(began.elapsed());
    }
    let (ours, raw) = (median(ours), median(raw));
    println!("{ours:?} against {raw:?}: {:.2}", ours.as_secs_f64() / raw.as_secs_f64());
}
