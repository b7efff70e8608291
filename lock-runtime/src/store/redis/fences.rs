//! [`Fences`]: what a client knows, on one connection, about the fence counters of a server.

use std::fmt;

use super::reply::NodeEpoch;
use crate::fence::Fence;

/// What the scripts have to know for the next fence number.
#[derive(Debug)]
pub(crate) struct Fences {
    /// If the counter is not above this, it may have lost numbers. 0 on a new connection, which may
    /// lead to a server that has lost some.
    seen: u64,
    epoch: Epoch,
}

/// The epoch in which the server became the master.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Epoch {
    /// Constant as long as the connection is used.
    Fixed(u64),
    /// A cluster node can be replaced and return while the connection stays, so it reports its
    /// epoch. The report is valid for one [version](super::topology::router::Router::version) of
    /// the slot map.
    Reported { report: NodeEpoch, version: u64 },
}

/// Writes the epoch as the scripts expect it.
impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(epoch) => write!(f, "{epoch}"),
            Self::Reported { report: NodeEpoch { at: 0, .. }, .. } => Ok(()),
            Self::Reported { report: NodeEpoch { epoch, at }, .. } => write!(f, "{epoch} {at}"),
        }
    }
}

impl Fences {
    /// The state of a new connection: to a master with this epoch, or to a cluster node.
    pub(crate) fn new(epoch: Option<u64>) -> Self {
        let reported = Epoch::Reported { report: NodeEpoch::default(), version: 0 };
        Self { seen: 0, epoch: epoch.map_or(reported, Epoch::Fixed) }
    }

    /// Returns the arguments `seen` and `epoch` of the scripts. With a new version of the slot map,
    /// the node may have received a slot, and a higher epoch with it: the script reads the epoch
    /// again.
    pub(crate) fn script_args(&mut self, map_version: u64) -> [String; 2] {
        if let Epoch::Reported { report, version } = &mut self.epoch
            && *version != map_version
        {
            report.at = 0;
            *version = map_version;
        }
        [self.seen.to_string(), self.epoch.to_string()]
    }

    /// Records a number that a script returned, and the epoch that a node reported with it.
    ///
    /// In a cluster, each slot has a counter. The first number of an epoch is a floor for all of
    /// them; later numbers say nothing about the counters of other slots.
    pub(crate) fn record(&mut self, fence: Fence, reported: Option<NodeEpoch>) {
        match &mut self.epoch {
            Epoch::Fixed(_) => self.seen = self.seen.max(fence.get()),
            Epoch::Reported { report, .. } => {
                if let Some(new) = reported.filter(|new| new.epoch >= report.epoch) {
                    if new.epoch > report.epoch || self.seen == 0 {
                        self.seen = fence.get();
                    }
                    *report = new;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(epoch: u64, at: u64) -> NodeEpoch {
        NodeEpoch { epoch, at }
    }

    #[test]
    fn remembers_the_greatest_number_of_a_server() {
        let mut fences = Fences::new(Some(7));
        assert_eq!(fences.script_args(0), ["0", "7"]);
        for (fence, seen) in [(5, "5"), (9, "9"), (8, "9")] {
            fences.record(Fence::new(fence), None);
            assert_eq!(fences.script_args(0), [seen, "7"]);
        }
    }

    #[test]
    fn remembers_the_first_number_of_each_epoch_of_a_node() {
        let mut fences = Fences::new(None);
        assert_eq!(fences.script_args(1), ["0", ""]);
        for (fence, reported, args) in [
            (50, Some(report(0, 10)), ["50", "0 10"]), // a cluster without any election
            (99, None, ["50", "0 10"]),
            (60, Some(report(0, 20)), ["50", "0 20"]),
            (70, Some(report(3, 15)), ["70", "3 15"]), // the clock went back
            (80, Some(report(0, 30)), ["70", "3 15"]), // a late reply
            (20, Some(report(3, 40)), ["70", "3 40"]),
            (80, Some(report(3, 5)), ["70", "3 5"]), // the clock went back again
        ] {
            fences.record(Fence::new(fence), reported);
            assert_eq!(fences.script_args(1), args);
        }
        assert_eq!(fences.script_args(2), ["70", ""]);
    }
}
