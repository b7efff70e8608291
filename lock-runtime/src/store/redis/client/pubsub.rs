//! Push messages: the channel of each connection, and what arrives there.

use std::sync::atomic::Ordering;

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
    /// Subscribes to the channel of this connection the first time, and returns its name; empty if push
    /// messages cannot arrive.
    pub(crate) async fn inbox(&self) -> Result<&str, ClientError> {
        let state = self.state();
        let subscribe = async || match self.subscribe(&state.inbox).await {
            Ok(()) => Ok(None),
            Err(error) if error.code().is_some() => Ok(Some(error.to_string())),
            Err(error) => Err(ClientError::sending(&error)),
        };
        match state.no_push.get_or_try_init(subscribe).await? {
            None => Ok(&state.inbox),
            Some(why) => {
                self.warn_no_push(why);
                Ok("")
            }
        }
    }

    /// Subscribes to a channel, unless push messages cannot arrive.
    pub(crate) async fn subscribe_if_possible(&self, channel: &str) {
        let no_push = &self.state().no_push;
        if let Some(Some(why)) = no_push.get() {
            self.warn_no_push(why);
        } else if let Err(error) = self.subscribe(channel).await
            && error.code().is_some()
        {
            let _ = no_push.set(Some(error.to_string()));
        }
    }

    /// Unsubscribes from a channel, if push messages can arrive. An error does not matter: messages that
    /// still arrive are ignored.
    pub(crate) async fn unsubscribe_if_possible(&self, channel: &str) {
        if !matches!(self.state().no_push.get(), Some(Some(_))) {
            let _ = self.call(&redis::cmd("UNSUBSCRIBE").arg(channel).take()).await;
        }
    }

    /// Logs once for all connections of a manager why push messages do not arrive.
    fn warn_no_push(&self, why: &str) {
        if !self.state().warned_no_push.swap(true, Ordering::Relaxed) {
            tracing::warn!("waiters poll, because push messages do not arrive: {why}");
        }
    }
}
