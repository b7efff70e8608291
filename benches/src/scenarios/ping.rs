//! The floor of all scenarios: a `PING` on the connection of the lock by hand.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::contenders::connect_raw;
use crate::stats::median;
use crate::worker::Worker;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    pub(crate) count: usize,
    /// The idle time before each `PING`: the caches are cold after it.
    pub(crate) idle: Duration,
}

impl Workload {
    /// Returns the median latency in microseconds.
    pub(super) async fn run(self, worker: &Worker, url: &str) -> Result<f64> {
        let mut connection = connect_raw(url).await?;
        let ping = redis::cmd("PING");
        worker.begin().await?;
        let mut micros = Vec::with_capacity(self.count);
        for _ in 0..self.count {
            if !self.idle.is_zero() {
                sleep(self.idle).await;
            }
            let sent = Instant::now();
            let () = ping.query_async(&mut connection).await?;
            micros.push(sent.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&micros))
    }
}
