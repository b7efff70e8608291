//! What the servers say of a lease that is renewed or released.

use std::sync::Arc;

use super::round::Round;
use crate::store::{Owned, StoreError};

/// The answers about one lease.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) yes: usize,
    no: usize,
    /// Which server could not say, and why.
    pub(super) causes: Vec<(usize, Arc<StoreError>)>,
}

impl Tally {
    pub(super) fn note(&mut self, node: usize, answer: Result<Owned, Arc<StoreError>>) {
        match answer {
            Ok(Owned::Yes) => self.yes += 1,
            Ok(Owned::No) => self.no += 1,
            Err(error) => self.causes.push((node, error)),
        }
    }

    /// Whether a majority of so many servers holds it, or can hold it no more; none while neither is known.
    pub(super) fn owned(&self, nodes: usize) -> Option<Owned> {
        let quorum = Round::quorum(nodes);
        if self.yes >= quorum {
            Some(Owned::Yes)
        } else if self.no > nodes - quorum {
            Some(Owned::No)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_decides_and_silence_does_not() {
        let tally = |answers: &[Option<Owned>]| {
            let mut tally = Tally::default();
            for (node, answer) in answers.iter().enumerate() {
                let silent = || Arc::new(StoreError::Unknown("silent".into()));
                tally.note(node, answer.ok_or_else(silent));
            }
            tally.owned(5)
        };
        let (yes, no) = (Some(Owned::Yes), Some(Owned::No));
        assert_eq!(tally(&[yes, no, yes, no, yes]), yes);
        assert_eq!(tally(&[yes, no, yes, no, no]), no);
        assert_eq!(tally(&[no, no, no]), no);
        for open in [&[][..], &[yes, yes], &[yes, yes, no, no, None], &[None; 5]] {
            assert_eq!(tally(open), None);
        }
    }
}
