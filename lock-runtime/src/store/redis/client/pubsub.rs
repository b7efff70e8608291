//! Push messages: the channel of each connection, and what arrives there.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::{PushInfo, PushKind, Value};

use super::connection::Connection;
use super::error::ClientError;

/// Receives the push messages of all connections: channel and payload.
pub(crate) type PushHandler = dyn Fn(&[u8], &[u8]) + Send + Sync;

/// The channel and the payload of a push message, if it is a message of a channel.
pub(super) fn message(push: &PushInfo) -> Option<(&[u8], &[u8])> {
    match (&push.kind, &push.data[..]) {
        (PushKind::Message, [Value::BulkString(channel), Value::BulkString(payload)]) => {
            Some((channel, payload))
        }
        _ => None,
    }
}

impl Connection {
    /// Subscribes to the channel of this connection the first time, and returns its name; empty if
    /// push messages cannot arrive. The reason is logged once for all connections that share
    /// `warned`.
    pub(crate) async fn inbox(&self, warned: &AtomicBool) -> Result<&str, ClientError> {
        let state = self.state();
        let subscribe = async || match self.subscribe(&state.inbox).await {
            Ok(()) => Ok(None),
            Err(error) if error.code().is_some() => Ok(Some(error.to_string())),
            Err(error) => Err(ClientError::sending(&error)),
        };
        let Some(why) = state.no_push.get_or_try_init(subscribe).await? else {
            return Ok(&state.inbox);
        };
        if !warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("waiters poll every 100 ms, because push messages do not arrive: {why}");
        }
        Ok("")
    }

    /// Whether push messages can arrive, as far as is known.
    pub(crate) fn supports_push(&self) -> bool {
        !matches!(self.state().no_push.get(), Some(Some(_)))
    }
}
