//! Mistakes that the model has to find.

use crate::client::{Command, Word};
use crate::reference::{Answer, Holder, Message, Question, Server};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The lease counts from the answer.
    LeaseFromAnswer,
    /// A message of an earlier time is taken for a new one.
    OldMessageBelieved,
    /// Who goes away while he waits just goes.
    NothingCleanedUp,
    /// A renewal without an answer counts as one that was confirmed.
    UnknownIsRenewed,
    /// The lock is handed over to whoever is the first in the queue.
    HandedToTheDead,
    /// A release deletes whatever it finds.
    ReleasedUnseen,
    /// The fence of a hand-over is not written down.
    FenceForgotten,
    /// Fences begin anew when the counter is lost.
    LossUnseen,
    /// Who asks when the lock is free gets it.
    NewcomerFirst,
    /// Who leaves the queue while the lock is free tells nobody.
    LeftSilently,
}

/// Executes a command, as a script with the mistake would.
pub(crate) fn execute(server: &mut Server, command: &Command, bug: Option<Bug>) -> Option<Word> {
    let before = server.clone();
    match (bug, command) {
        (Some(Bug::HandedToTheDead), _) => server.connected = (0..3).collect(),
        (Some(Bug::ReleasedUnseen), Command::Release { token, .. }) if server.holder.is_some() => {
            server.holder = Some(Holder::Token(*token));
        }
        (Some(Bug::NewcomerFirst), Command::Acquire { .. }) if server.holder.is_none() => {
            server.queue.clear();
        }
        (Some(Bug::LossUnseen), _) => server.fence = server.fence.or(Some(1)),
        _ => {}
    }
    let seen = |seen| if bug == Some(Bug::LossUnseen) { 1 } else { seen };
    let answer = match *command {
        Command::Acquire { question, .. } => {
            let question = Question { seen: seen(question.seen), ..question };
            Some(Word::Answer(server.acquire(question)))
        }
        Command::Release { token, keep, seen: last } => {
            server.release(token, keep, seen(last));
            None
        }
        Command::Renew { token, ttl, sent } => {
            Some(Word::Renewed { sent, ours: server.renew(token, ttl) })
        }
    };
    match (bug, command) {
        (Some(Bug::HandedToTheDead), _) => server.connected = before.connected,
        (Some(Bug::NewcomerFirst), _)
            if matches!(answer, Some(Word::Answer(Answer::Granted(_)))) =>
        {
            server.queue = before.queue;
        }
        (Some(Bug::FenceForgotten), _)
            if server.sent.iter().any(|(_, sent)| matches!(sent, Message::Held(_))) =>
        {
            server.fence = before.fence;
        }
        (Some(Bug::LeftSilently), Command::Release { .. }) if before.holder.is_none() => {
            *server = Server { sent: Vec::new(), ..server.clone() };
        }
        _ => {}
    }
    answer
}
