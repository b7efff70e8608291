//! Commands that write, with `WAIT` behind them if replicas have to acknowledge.

use std::pin::pin;
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, Value};
use tokio::time::timeout;

use super::connection::Connection;
use super::error::{ClientError, Reply};
use super::replication::{Acknowledgement, Replication, WriteReply, Written, WrittenTogether};

impl Connection {
    /// Sends commands together, with `WAIT` behind them if replicas have to acknowledge.
    pub(crate) async fn write_together(
        &self,
        mut commands: Pipeline,
    ) -> Result<WrittenTogether, ClientError> {
        let replication @ Replication { replicas: wanted, .. } = self.replication();
        let waits = !replication.is_asynchronous();
        if waits {
            commands.add_command(replication.command());
        }
        let mut replies = self.send(&commands).await?;
        let reply = waits.then(|| last(&mut replies));
        Ok(WrittenTogether { replies, acknowledgement: Acknowledgement { wanted, reply } })
    }

    /// Sends commands that write together. If the replies take longer than `patience`, and twice as long
    /// as the last time, the connection becomes suspect; the replies are awaited nevertheless. A slow
    /// connection is not replaced, because the next one would be as slow.
    pub(crate) async fn write_timed(
        &self,
        commands: Pipeline,
        patience: Duration,
    ) -> Result<WrittenTogether, ClientError> {
        let sent = Instant::now();
        let patience = patience.max(self.pace() * 2);
        let mut written = pin!(self.write_together(commands));
        let written = if let Ok(written) = timeout(patience, written.as_mut()).await {
            written?
        } else {
            self.note_missing_reply();
            written.await?
        };
        self.set_pace(sent.elapsed());
        Ok(written)
    }

    /// Sends one command, with `WAIT` behind it if replicas have to acknowledge.
    pub(crate) async fn write(&self, command: Cmd) -> WriteReply {
        if self.replication().is_asynchronous() {
            let reply = self.call(&command).await?;
            let acknowledgement = Acknowledgement { wanted: 0, reply: None };
            return Ok(Written { reply, acknowledgement });
        }
        let mut commands = self.pipeline();
        commands.add_command(command);
        let WrittenTogether { mut replies, acknowledgement } =
            self.write_together(commands).await?;
        Ok(Written { reply: last(&mut replies)?, acknowledgement })
    }
}

fn last(replies: &mut Vec<Reply>) -> Reply {
    replies.pop().unwrap_or_else(|| Err(ClientError::unexpected(&Value::Nil)))
}
