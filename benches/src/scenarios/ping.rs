//! The floor of everything: a `PING`, on the connection of the lock by hand.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::contenders::connect_by_hand;
use crate::stats::median;
use crate::worker::Stage;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) count: usize,
    /// How long nothing happens before each: after that, no cache knows the way any more.
    pub(crate) rest: Duration,
}

impl Work {
    /// The median in microseconds.
    pub(super) async fn run(self, stage: &Stage, url: &str) -> Result<f64> {
        let mut connection = connect_by_hand(url).await?;
        let ping = redis::cmd("PING");
        stage.begin().await?;
        let mut micros = Vec::with_capacity(self.count);
        for _ in 0..self.count {
            if !self.rest.is_zero() {
                sleep(self.rest).await;
            }
            let asked = Instant::now();
            let () = ping.query_async(&mut connection).await?;
            micros.push(asked.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&micros))
    }
}
