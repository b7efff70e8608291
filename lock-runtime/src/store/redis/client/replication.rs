//! [`Replication`]: writes that replicas acknowledge, which are commands followed by `WAIT`.

use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use super::connection::{Connection, Reply};
use super::error::ClientError;

/// How many replicas have to acknowledge a write, and how long the server waits for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replication {
    replicas: u32,
    limit: Duration,
}

/// The reply to a command that writes.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) reply: Value,
    pub(crate) acknowledgement: Acknowledgement,
}

/// The reply to one of several commands that write.
pub(crate) type WriteReply = Result<Written, ClientError>;

/// The replies to several commands that write, and one acknowledgement for all of them.
#[derive(Debug)]
pub(crate) struct WrittenTogether {
    pub(crate) replies: Vec<Reply>,
    pub(crate) acknowledgement: Acknowledgement,
}

/// The reply to `WAIT`.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledgement {
    wanted: u32,
    /// `None` if no replica has to acknowledge.
    reply: Option<Reply>,
}

impl Replication {
    /// Replication to this many replicas. The server waits half a timeout for them, so that its own
    /// reply comes in time.
    pub(crate) fn to(replicas: u32, timeout: Duration) -> Self {
        Self { replicas, limit: timeout / 2 }
    }

    /// Whether writes count without an acknowledgement.
    pub(crate) fn is_asynchronous(self) -> bool {
        self.replicas == 0
    }

    fn wait_command(self) -> Cmd {
        redis::cmd("WAIT").arg(self.replicas).arg(self.limit.as_millis().to_string()).take()
    }
}

impl Acknowledgement {
    /// Fails unless enough replicas have acknowledged. The write itself was executed in any case.
    pub(crate) fn check(&self) -> Result<(), ClientError> {
        let wanted = self.wanted;
        match &self.reply {
            None => Ok(()),
            Some(Ok(Value::Int(count))) if *count >= i64::from(wanted) => Ok(()),
            Some(Ok(Value::Int(count))) => Err(ClientError::unknown(format!(
                "{count} of {wanted} replicas have acknowledged it in time"
            ))),
            Some(Ok(other)) => Err(ClientError::unexpected(other)),
            Some(Err(error)) => Err(ClientError::unknown(error.to_string())),
        }
    }

    /// Fails unless the server has enough replicas and permits `WAIT`.
    pub(crate) fn check_at_start(self) -> Result<(), ClientError> {
        let wanted = self.wanted;
        match self.reply.transpose()? {
            Some(Value::Int(found)) if found < i64::from(wanted) => {
                Err(ClientError::refused(format!(
                    "it has {found} of the {wanted} replicas that `replicas` asks for; \
                     start more, or ask for fewer"
                )))
            }
            None | Some(Value::Int(_)) => Ok(()),
            Some(other) => Err(ClientError::unexpected(&other)),
        }
    }
}

impl WrittenTogether {
    /// Returns the reply to each command, with the acknowledgement of all of them.
    pub(crate) fn separate(self) -> Vec<WriteReply> {
        let Self { replies, acknowledgement } = self;
        let written = |reply: Reply| {
            reply.map(|reply| Written { reply, acknowledgement: acknowledgement.clone() })
        };
        replies.into_iter().map(written).collect()
    }
}

impl Connection {
    /// Sends commands together, followed by `WAIT` if replicas have to acknowledge.
    pub(crate) async fn write_together(
        &self,
        mut commands: Pipeline,
    ) -> Result<WrittenTogether, ClientError> {
        let replication @ Replication { replicas: wanted, .. } = self.replication();
        let waits = !replication.is_asynchronous();
        if waits {
            commands.add_command(replication.wait_command());
        }
        let mut replies = self.send(&commands).await?;
        let reply = waits.then(|| last(&mut replies));
        Ok(WrittenTogether { replies, acknowledgement: Acknowledgement { wanted, reply } })
    }

    /// Sends one command, followed by `WAIT` if replicas have to acknowledge.
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
