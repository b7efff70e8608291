//! Sockets that are shut down on drop.

use std::os::fd::AsFd;

use rustix::net::{Shutdown, shutdown};

/// A socket that is shut down on drop, including its duplicates.
///
/// A process that is being forked has a duplicate of every socket until it executes its program.
/// Closing alone would leave the duplicate open, and a listener would go on to accept connections.
#[derive(Debug)]
pub(super) struct Closing<S: AsFd>(pub(super) S);

impl<S: AsFd> Drop for Closing<S> {
    fn drop(&mut self) {
        // Fails if the other side has closed it already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}
