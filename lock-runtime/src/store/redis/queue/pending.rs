//! [`Pending`]: the acquires in flight, and the messages for those that wait.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::waiter::Message;
use crate::fence::Fence;
use crate::store::redis::client::connection::Connection;
use crate::sync::lock;
use crate::token::Token;

/// The pending acquires of one manager, by token, from the first request to the grant or the
/// release.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<BTreeMap<Token, Acquire>>);

#[derive(Debug)]
struct Acquire {
    /// The connection that carries the last request.
    connection: Connection,
    /// Whether the last request has its reply.
    replied: bool,
    /// The last message. It may replace another one, because the next poll shows all that a waiter
    /// has missed.
    message: Option<Message>,
    waiter: Option<Waker>,
}

impl Pending {
    /// Records that a request is being sent. Messages to `token` are kept from now on.
    pub(super) fn sent(&self, token: Token, connection: &Connection) {
        let connection = connection.clone();
        let acquire = Acquire { connection, replied: false, message: None, waiter: None };
        lock(&self.0).insert(token, acquire);
    }

    /// Records the reply that the token is in the queue.
    pub(super) fn queued(&self, token: Token) {
        if let Some(acquire) = lock(&self.0).get_mut(&token) {
            acquire.replied = true;
        }
    }

    /// Ends an acquire. Returns the connection that carries its last request if the reply is
    /// unknown: what is sent on another connection may overtake the request.
    pub(super) fn end(&self, token: Token) -> Option<Connection> {
        let acquire = lock(&self.0).remove(&token)?;
        (!acquire.replied).then_some(acquire.connection)
    }

    /// Waits until `until` for the next message to `token`, which arrives on `connection`. Returns
    /// [`Message::Disconnected`] once the connection is unusable, so that its waiters poll at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn next_message(
        &self,
        token: Token,
        connection: &Connection,
        until: Instant,
    ) -> Option<Message> {
        let message = poll_fn(|cx| {
            let mut all = lock(&self.0);
            // Without an entry, the acquire has ended elsewhere: the next poll shows how.
            let Some(acquire) = all.get_mut(&token) else {
                return Poll::Ready(Message::Disconnected);
            };
            if acquire.message.is_none() {
                acquire.waiter = Some(cx.waker().clone());
            }
            acquire.message.take().map_or(Poll::Pending, Poll::Ready)
        });
        let next = async {
            tokio::select! {
                biased; // a message of a stale master proves nothing
                () = connection.unusable() => Message::Disconnected,
                message = message => message,
            }
        };
        timeout_at(until.into(), next).await.ok()
    }

    /// Delivers the payload of a push message: `<token> held <fence>` or
    /// `<token> free <milliseconds>`. Ignores any other payload.
    pub(super) fn deliver(&self, payload: &[u8]) {
        if let Some((token, message)) = parse(payload)
            && let Some(acquire) = lock(&self.0).get_mut(&token)
        {
            acquire.message = Some(message);
            if let Some(waiter) = acquire.waiter.take() {
                waiter.wake();
            }
        }
    }
}

fn parse(payload: &[u8]) -> Option<(Token, Message)> {
    let mut words = std::str::from_utf8(payload).ok()?.split(' ');
    let (token, word, number) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let message = match word {
        "held" => Message::Held(Fence::new(number)),
        "free" => Message::Free(Duration::from_millis(number)),
        _ => return None,
    };
    Some((Token::parse(token)?, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_messages_and_ignores_others() {
        let token = Token::random().unwrap();
        let read = |rest: &str| {
            parse(format!("{token} {rest}").as_bytes()).map(|(to, message)| {
                assert_eq!(to, token);
                message
            })
        };
        assert_eq!(read("held 17"), Some(Message::Held(Fence::new(17))));
        assert_eq!(read("free 5"), Some(Message::Free(Duration::from_millis(5))));
        for other in ["", "held", "held x", "held -1", "gone 5"] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(parse(b"0123 held 17"), None);
        assert_eq!(parse(b"\xff"), None);
    }
}
