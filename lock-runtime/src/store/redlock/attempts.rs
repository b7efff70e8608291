//! The attempts whose votes may be on their way: where their questions were sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::electorate::Electorate;
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
        let questions = Questions { are_allowed: true, asked: 0, unanswered: vec![None; nodes] };
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

    /// Sends no further questions of an attempt. Gives the line of each server whose answer is missing:
    /// what is sent elsewhere now may overtake the question.
    pub(super) fn end(&self, token: Token) -> Vec<Option<Line>> {
        let attempt = self.all().remove(&token);
        attempt.map_or_else(Vec::new, |attempt| {
            let mut questions = attempt.questions();
            questions.are_allowed = false;
            std::mem::take(&mut questions.unanswered)
        })
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
    are_allowed: bool,
    asked: usize,
    unanswered: Vec<Option<Line>>,
}

impl Attempt {
    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question is about to be sent to a server. It must not be if the attempt was given up meanwhile.
    pub(super) fn ask(&self, node: usize, line: &Line) -> bool {
        let mut questions = self.questions();
        if questions.are_allowed {
            questions.asked += 1;
            questions.unanswered[node] = Some(line.clone());
        }
        questions.are_allowed
    }

    /// How many servers were asked.
    pub(super) fn asked(&self) -> usize {
        self.questions().asked
    }

    pub(super) fn answered(&self, node: usize) {
        if let Some(line) = self.questions().unanswered.get_mut(node) {
            *line = None;
        }
    }

    /// Whether the lock is wanted no more.
    pub(super) fn is_over(&self) -> bool {
        !self.questions().are_allowed
    }
}
