//! The floor: the two commands that every lock needs, sent by hand.

use std::time::Duration;

use anyhow::Result;
use redis::aio::MultiplexedConnection;
use redis::{Client, IntoConnectionInfo};
use tokio::time::sleep;

use super::{Body, Call, Lock, Settings};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// A connection, with the digest of the script that compares and deletes.
pub(super) struct Raw {
    connection: MultiplexedConnection,
    release: String,
    ttl_ms: u128,
}

impl Raw {
    pub(super) async fn connect(url: &str, settings: Settings) -> Result<Self> {
        let mut connection = connect(url).await?;
        let release =
            redis::cmd("SCRIPT").arg("LOAD").arg(RELEASE).query_async(&mut connection).await?;
        Ok(Self { connection, release, ttl_ms: settings.ttl.as_millis() })
    }

    /// Connects to each server of a list of hosts, separated by commas.
    pub(super) async fn connect_all(hosts: &str, settings: Settings) -> Result<Vec<Self>> {
        let mut servers = Vec::new();
        for host in hosts.split(',') {
            servers.push(Self::connect(&format!("redis://{host}"), settings).await?);
        }
        Ok(servers)
    }

    /// Whether the server owns the slot of the key and does not redirect.
    pub(super) async fn owns(&self, key: &str) -> bool {
        let mut exists = redis::cmd("EXISTS");
        exists.arg(key).exec_async(&mut self.connection.clone()).await.is_ok()
    }
}

impl Lock for Raw {
    fn run<'a>(&'a self, key: &'a str, body: Body) -> Call<'a> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let token = format!("{:016x}{:016x}", getrandom::u64()?, getrandom::u64()?);
            let mut set = redis::cmd("SET");
            set.arg(key).arg(&token).arg("NX").arg("PX").arg(self.ttl_ms.to_string());
            while set.query_async::<Option<String>>(&mut connection).await?.is_none() {
                sleep(retry_delay()?).await;
            }
            body.await;
            let mut release = redis::cmd("EVALSHA");
            release.arg(&self.release).arg(1).arg(key).arg(&token);
            let released: u32 = release.query_async(&mut connection).await?;
            anyhow::ensure!(released == 1, "the lock was lost");
            Ok(())
        })
    }
}

/// Connects without Nagle's algorithm, which would delay small commands.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let info = url.into_connection_info()?;
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    let client = Client::open(info.set_tcp_settings(tcp))?;
    Ok(client.get_multiplexed_async_connection().await?)
}

/// Returns the delay before the next try for a held lock: 100 ms as in most crates, with jitter so
/// that waiters do not retry in step.
fn retry_delay() -> Result<Duration> {
    Ok(Duration::from_millis(50 + u64::from(getrandom::u32()?) % 100))
}
