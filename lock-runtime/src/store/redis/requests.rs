//! The requests that are being made: where each was sent, and the messages for those that wait.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use redis::{PushInfo, PushKind, Value};
use tokio::time::timeout_at;

use super::channels::Channels;
use super::line::Line;
use super::waiter::Message;
use crate::{Fence, Token};

/// The requests of one manager, by token, from their first question to the grant or the release.
#[derive(Debug, Default)]
pub(in crate::store) struct Requests {
    by_token: Mutex<BTreeMap<Token, Request>>,
    channels: Arc<Channels>,
}

#[derive(Debug)]
struct Request {
    /// Where the last question was sent, and whether its answer is known.
    line: Line,
    answered: bool,
    /// The last message. It does not matter which ones it has replaced: what a waiter misses, it
    /// learns by asking.
    message: Option<Message>,
    waiter: Option<Waker>,
}

impl Requests {
    /// A panic elsewhere leaves the map usable: each change to it is complete or not begun.
    fn all(&self) -> MutexGuard<'_, BTreeMap<Token, Request>> {
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question is sent. From now on, messages to `token` are kept.
    pub(super) fn ask(&self, token: Token, line: &Line) {
        let request = Request { line: line.clone(), answered: false, message: None, waiter: None };
        self.all().insert(token, request);
    }

    /// The answer was that the request waits.
    pub(super) fn wait(&self, token: Token) {
        if let Some(request) = self.all().get_mut(&token) {
            request.answered = true;
        }
    }

    /// The request is over. Gives the line on which its last question was sent, if the answer is
    /// not known: what is sent elsewhere now may overtake the question.
    pub(super) fn end(&self, token: Token) -> Option<Line> {
        let request = self.all().remove(&token)?;
        (!request.answered).then_some(request.line)
    }

    /// The next message to `token`, if there is one until then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn message(&self, token: Token, until: Instant) -> Option<Message> {
        let message = poll_fn(|cx| {
            let mut all = self.all();
            // Requests end only when nobody waits for them any more.
            let Some(request) = all.get_mut(&token) else { return Poll::Pending };
            if request.message.is_none() {
                request.waiter = Some(cx.waker().clone());
            }
            request.message.take().map_or(Poll::Pending, Poll::Ready)
        });
        timeout_at(until.into(), message).await.ok()
    }

    /// Passes on what the server has sent on a line without being asked.
    pub(super) fn receive(&self, push: &PushInfo) {
        if let (PushKind::Message, [Value::BulkString(channel), Value::BulkString(text)]) =
            (&push.kind, &push.data[..])
        {
            match parse(text) {
                Some((token, message)) => {
                    if let Some(request) = self.all().get_mut(&token) {
                        request.tell(message);
                    }
                }
                None => self.channels.tell(channel),
            }
        }
    }

    /// Where messages arrive that are for no request in particular.
    pub(in crate::store) fn channels(&self) -> &Arc<Channels> {
        &self.channels
    }

    /// Has those ask again who wait for messages on a line that broke.
    pub(super) fn disconnected(&self, is_theirs: impl Fn(&Line) -> bool) {
        for request in self.all().values_mut().filter(|request| is_theirs(&request.line)) {
            request.tell(Message::Lost);
        }
    }
}

impl Request {
    fn tell(&mut self, message: Message) {
        self.message = Some(message);
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }
}

/// `<token> held <fence>` or `<token> free <milliseconds>`.
fn parse(text: &[u8]) -> Option<(Token, Message)> {
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
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
    fn messages_are_read_and_others_ignored() {
        let token = Token::random().unwrap();
        let read = |rest: &str| {
            parse(format!("{token} {rest}").as_bytes()).map(|(to, what)| {
                assert_eq!(to, token);
                what
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
