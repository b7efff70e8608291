//! Ten minutes of work and faults, and a million keys, without a leak.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use harness::{Mode, Proxy, Server, run};
use lock_runtime::LockManager;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use super::growth::{assert_no_growth, pay_many, size};
use crate::support::{clients, count_keys, ms, process_status, setup};

const KEYS: u64 = 1_000;
const TASKS: u64 = 200;
const TTL: Duration = ms(1_000);

/// Returns the resident memory in kilobytes.
fn resident() -> u64 {
    process_status("VmRSS:").unwrap_or_default()
}

/// Injects one fault and returns after its end.
async fn fault(number: u64, proxy: &Proxy, server: &Server, redis: &mut MultiplexedConnection) {
    match number % 8 {
        0 => proxy.cut(),
        1 => proxy.lose_reply_to("EVAL"),
        2 => proxy.both_ways(Mode::Hold),
        3 => proxy.both_ways(Mode::Lose),
        4 => run(redis, "CLIENT KILL TYPE normal SKIPME yes").await,
        5 => run(redis, "SCRIPT FLUSH").await,
        6 => run(redis, "CLIENT PAUSE 500 WRITE").await,
        _ => server.pause(),
    }
    sleep(ms(500)).await;
    server.resume();
    proxy.both_ways(Mode::Pass);
    proxy.cut(); // connections that get no replies any longer
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn leaks_nothing_over_a_million_keys() {
    let (_server, locks, mut redis) = setup().await;
    pay_many(&locks, 0..50_000).await;
    let before = size();
    pay_many(&locks, 50_000..1_050_000).await;
    println!("{before:?}, then {:?}", size());
    assert_no_growth(before, 1_000).await;
    assert_eq!(count_keys(&mut redis).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten minutes"]
async fn leaks_nothing_in_ten_minutes_of_faults() {
    const LENGTH: Duration = Duration::from_secs(600);
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    let mut redis = server.connection().await;
    let (start, grants, errors) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(0));
    let work = stream::iter(0..TASKS).for_each_concurrent(None, async |task| {
        let mut random = fastrand::Rng::with_seed(task);
        while start.elapsed() < LENGTH {
            let key = format!("k{}", random.u64(..KEYS));
            let count = if let Ok(guard) = locks.lock(key).ttl(TTL).wait(TTL).await {
                sleep(ms(random.u64(..16))).await;
                let _ = guard.release().await;
                &grants
            } else {
                sleep(ms(10)).await;
                &errors
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut before = None;
    let faults = async {
        for number in 0.. {
            sleep(ms(4_500)).await;
            let elapsed = start.elapsed();
            if elapsed >= LENGTH {
                break;
            }
            if before.is_none() && elapsed >= LENGTH / 5 {
                before = Some((size(), resident(), clients(&mut redis).await.len()));
            }
            if number % 12 == 0 {
                println!("{elapsed:.0?}: {:?}, {} KB resident", size(), resident());
            }
            fault(number, &proxy, &server, &mut redis).await;
        }
    };
    tokio::join!(work, faults);
    let (size_before, resident_before, connections) = before.unwrap();
    println!("{grants:?} grants, {errors:?} errors");
    let kilobytes = resident_before / 50;
    assert!(resident() <= resident_before + kilobytes, "{resident_before}, then {}", resident());
    assert_no_growth(size_before, kilobytes).await;
    assert!(clients(&mut redis).await.len() <= connections, "connections are leaked");
    sleep(TTL).await;
    assert_eq!(count_keys(&mut redis).await, 0);
}
