//! Commands that write, and `WAIT` behind them if replicas have to acknowledge.

use std::pin::pin;
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, Value};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::connection::Connection;
use super::error::{ClientError, Reply};
use super::replication::{
    Acknowledgement, Replication, Unacknowledged, WriteReply, Written, WrittenTogether,
};
use crate::sync::lock;

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
            return Ok(Written { reply, acknowledgement: Acknowledgement::not_needed() });
        }
        let mut commands = self.pipeline();
        commands.add_command(command);
        let WrittenTogether { mut replies, acknowledgement } =
            self.write_together(commands).await?;
        Ok(Written { reply: last(&mut replies)?, acknowledgement })
    }
}

impl Connection {
    /// Waits until replicas have acknowledged every write that had its reply on this connection before
    /// this call. While a `WAIT` is pending, all calls share the next one.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a task of its own sends `WAIT`, and ends when no call is left.
    pub(crate) async fn acknowledged(&self) -> Acknowledgement {
        let replication @ Replication { replicas: wanted, .. } = self.replication();
        if replication.is_asynchronous() {
            return Acknowledgement::not_needed();
        }
        let (sender, acknowledgement) = oneshot::channel();
        {
            let mut unacknowledged = lock(self.unacknowledged());
            unacknowledged.waiting.push(sender);
            if !std::mem::replace(&mut unacknowledged.is_waiting, true) {
                tokio::spawn(self.clone().acknowledge());
            }
        }
        let lost = |_| Acknowledgement { wanted, reply: Some(Err(ClientError::no_reply())) };
        acknowledgement.await.unwrap_or_else(lost)
    }

    /// Sends `WAIT` for all calls that are waiting, until there are none.
    async fn acknowledge(self) {
        let replication @ Replication { replicas: wanted, .. } = self.replication();
        loop {
            let waiting = {
                let mut unacknowledged = lock(self.unacknowledged());
                if unacknowledged.waiting.is_empty() {
                    unacknowledged.is_waiting = false;
                    return;
                }
                std::mem::take(&mut unacknowledged.waiting)
            };
            let reply = self.call(&replication.command()).await;
            for sender in waiting {
                // An error means that the caller has gone.
                let _ = sender.send(Acknowledgement { wanted, reply: Some(reply.clone()) });
            }
        }
    }

    /// Reserves the next `WAIT` for one write, so that both are sent together, unless one is pending.
    pub(crate) fn reserve_wait(&self) -> Option<ReservedWait> {
        if self.replication().is_asynchronous() {
            return None;
        }
        let is_waiting = std::mem::replace(&mut lock(self.unacknowledged()).is_waiting, true);
        (!is_waiting).then(|| ReservedWait(self.clone()))
    }
}

/// A `WAIT` that is sent together with one write. Dropped, it lets the calls that came in the meantime
/// have theirs.
#[derive(Debug)]
pub(crate) struct ReservedWait(Connection);

impl Drop for ReservedWait {
    fn drop(&mut self) {
        let mut unacknowledged = lock(self.0.unacknowledged());
        match Handle::try_current() {
            Ok(runtime) if !unacknowledged.waiting.is_empty() => {
                runtime.spawn(self.0.clone().acknowledge());
            }
            // Without a runtime, the connection has ended, and with it the calls.
            _ => *unacknowledged = Unacknowledged::default(),
        }
    }
}

fn last(replies: &mut Vec<Reply>) -> Reply {
    replies.pop().unwrap_or_else(|| Err(ClientError::unexpected(&Value::Nil)))
}
