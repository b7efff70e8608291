//! What a line knows of the fence numbers of its server.

use std::fmt;

use super::answer::Told;
use crate::Fence;

/// What the scripts need to know for the next fence number.
#[derive(Debug)]
pub(super) struct Fences {
    /// A counter that is not above this may have lost some. 0 on a new line, which may lead to a server
    /// that has.
    seen: u64,
    epoch: Epoch,
}

/// The epoch in which the server became the master.
#[derive(Debug, Clone, Copy)]
pub(super) enum Epoch {
    /// It stays the same as long as the line is used.
    Fixed(u64),
    /// A server of a cluster can be replaced and come back while the line stays, so it tells.
    Told(Told),
}

/// As the scripts expect it.
impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(epoch) => write!(f, "{epoch}"),
            Self::Told(Told { at: 0, .. }) => Ok(()),
            Self::Told(Told { epoch, at }) => write!(f, "{epoch} {at}"),
        }
    }
}

impl Fences {
    pub(super) fn new(epoch: Epoch) -> Self {
        Self { seen: 0, epoch }
    }

    /// `seen` and `epoch` as the scripts expect them.
    pub(super) fn terms(&self) -> [String; 2] {
        [self.seen.to_string(), self.epoch.to_string()]
    }

    /// Takes note of a number that was given, and of what was told with it.
    ///
    /// In a cluster each slot has a counter. The first number of an epoch is a floor for all of them;
    /// later ones say nothing of another slot's counter.
    pub(super) fn note(&mut self, fence: Fence, told: Option<Told>) {
        match &mut self.epoch {
            Epoch::Fixed(_) => self.seen = self.seen.max(fence.get()),
            Epoch::Told(known) => {
                if let Some(told) = told.filter(|told| told.epoch >= known.epoch) {
                    if told.epoch > known.epoch || self.seen == 0 {
                        self.seen = fence.get();
                    }
                    *known = told;
                }
            }
        }
    }

    /// Has the server tell its epoch again, because a slot has come to it, and a higher epoch with that.
    pub(super) fn doubt_epoch(&mut self) {
        if let Epoch::Told(told) = &mut self.epoch {
            told.at = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(epoch: u64, at: u64) -> Told {
        Told { epoch, at }
    }

    #[test]
    fn the_greatest_number_of_a_server_is_seen() {
        let mut fences = Fences::new(Epoch::Fixed(7));
        assert_eq!(fences.terms(), ["0", "7"]);
        for (fence, seen) in [(5, "5"), (9, "9"), (8, "9")] {
            fences.note(Fence::new(fence), None);
            assert_eq!(fences.terms(), [seen, "7"]);
        }
    }

    #[test]
    fn the_first_number_of_each_epoch_of_a_server_in_a_cluster_is_seen() {
        let mut fences = Fences::new(Epoch::Told(Told::default()));
        assert_eq!(fences.terms(), ["0", ""]);
        for (fence, told, terms) in [
            (50, Some(told(0, 10)), ["50", "0 10"]), // a cluster that has never had an election
            (99, None, ["50", "0 10"]),
            (60, Some(told(0, 20)), ["50", "0 20"]),
            (70, Some(told(3, 15)), ["70", "3 15"]), // the clock went back
            (80, Some(told(0, 30)), ["70", "3 15"]), // an answer that comes late
            (20, Some(told(3, 40)), ["70", "3 40"]),
            (80, Some(told(3, 5)), ["70", "3 5"]), // and went back once more
        ] {
            fences.note(Fence::new(fence), told);
            assert_eq!(fences.terms(), terms);
        }
        fences.doubt_epoch();
        assert_eq!(fences.terms(), ["70", ""]);
    }
}
