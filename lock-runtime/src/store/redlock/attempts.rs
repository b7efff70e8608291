//! The attempts whose votes may be on their way: where their questions were sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::electorate::Electorate;
use super::node::Return;
use crate::Token;
use crate::store::Claim;
use crate::store::redis::line::Line;
use crate::store::redis::names::Names;

/// The attempts of one manager, by token, from their first question until all are answered or the lock is
/// released.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<BTreeMap<Token, Arc<Attempt>>>);

impl Attempts {
    pub(super) fn begin(&self, claim: &Claim, nodes: usize) -> Arc<Attempt> {
        let questions = Questions { asked: 0, unanswered: vec![None; nodes], back: None };
        let attempt = Arc::new(Attempt {
            names: Names::of(&claim.key),
            token: claim.token,
            ttl: claim.ttl,
            electorate: Electorate::default(),
            questions: Mutex::new(questions),
        });
        self.all().insert(claim.token, Arc::clone(&attempt));
        attempt
    }

    /// The lock is given back: no further questions of the attempt are sent. Gives the line of each server
    /// whose answer is missing: what is sent elsewhere now may overtake the question.
    pub(super) fn give_back(&self, back: &Arc<Return>, nodes: usize) -> Vec<Option<Line>> {
        let attempt = self.all().remove(&back.release.token);
        attempt.map_or_else(
            || vec![None; nodes],
            |attempt| {
                let mut questions = attempt.questions();
                questions.back = Some(Arc::clone(back));
                questions.unanswered.iter_mut().map(Option::take).collect()
            },
        )
    }

    /// All questions are answered.
    pub(super) fn forget(&self, token: Token) {
        self.all().remove(&token);
    }

    /// A panic elsewhere leaves the map usable: each change to it is complete or not begun.
    fn all(&self) -> MutexGuard<'_, BTreeMap<Token, Arc<Attempt>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One attempt to take a lock.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) names: Names,
    pub(super) token: Token,
    pub(super) ttl: Duration,
    pub(super) electorate: Electorate,
    questions: Mutex<Questions>,
}

#[derive(Debug)]
struct Questions {
    asked: usize,
    unanswered: Vec<Option<Line>>,
    /// How the lock was given back, once it was.
    back: Option<Arc<Return>>,
}

impl Attempt {
    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question is about to be sent to a server. It must not be if the attempt was given up meanwhile.
    pub(super) fn ask(&self, node: usize, line: &Line) -> bool {
        let mut questions = self.questions();
        let is_wanted = questions.back.is_none();
        if is_wanted {
            questions.asked += 1;
            questions.unanswered[node] = Some(line.clone());
        }
        is_wanted
    }

    /// How many servers were asked.
    pub(super) fn asked(&self) -> usize {
        self.questions().asked
    }

    pub(super) fn answered(&self, node: usize) {
        self.questions().unanswered[node] = None;
    }

    /// How the lock was given back, if it was.
    pub(super) fn back(&self) -> Option<Arc<Return>> {
        self.questions().back.clone()
    }
}
