//! The `INFO` of a server.

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;

/// The reply to `INFO everything`.
#[derive(Debug)]
pub(crate) struct Info(String);

impl Info {
    pub(crate) async fn read(connection: &mut MultiplexedConnection) -> Result<Self> {
        Ok(Self(redis::cmd("INFO").arg("everything").query_async(connection).await?))
    }

    /// Returns the text of a field.
    pub(crate) fn field(&self, name: &str) -> Result<&str> {
        let mut fields = self.0.lines().filter_map(|line| line.split_once(':'));
        fields
            .find_map(|(field, value)| (field == name).then_some(value))
            .with_context(|| format!("`INFO` has no field `{name}`"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<f64> {
        Ok(self.field(name)?.parse()?)
    }

    /// Returns the processor time of the server, in seconds.
    pub(crate) fn cpu(&self) -> Result<f64> {
        Ok(self.number("used_cpu_user")? + self.number("used_cpu_sys")?)
    }

    /// Returns how often clients and scripts have run a command.
    pub(crate) fn calls(&self, command: &str) -> f64 {
        let stats = self.field(&format!("cmdstat_{command}")).unwrap_or_default();
        let calls = stats.split(',').find_map(|stat| stat.strip_prefix("calls="));
        calls.and_then(|calls| calls.parse().ok()).unwrap_or_default()
    }
}
