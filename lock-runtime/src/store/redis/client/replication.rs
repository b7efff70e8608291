//! [`Replication`]: how many replicas acknowledge a write, and what their acknowledgement means.

use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::oneshot;

use super::error::{ClientError, Reply};

/// How many replicas have to acknowledge a write, and how long the server waits for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replication {
    pub(super) replicas: u32,
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
    pub(super) wanted: u32,
    /// `None` if no replica has to acknowledge.
    pub(super) reply: Option<Reply>,
}

/// The writes of a connection that have their reply and await an acknowledgement.
#[derive(Debug, Default)]
pub(super) struct Unacknowledged {
    /// The calls that the next `WAIT` covers.
    pub(super) waiting: Vec<oneshot::Sender<Acknowledgement>>,
    /// Whether a `WAIT` is pending.
    pub(super) is_waiting: bool,
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

    /// The command that waits for the acknowledgements.
    pub(super) fn command(self) -> Cmd {
        redis::cmd("WAIT").arg(self.replicas).arg(self.limit.as_millis().to_string()).take()
    }
}

impl Acknowledgement {
    /// The acknowledgement of writes that count without one.
    pub(super) fn not_needed() -> Self {
        Self { wanted: 0, reply: None }
    }

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
