//! Sockets that close when they are told to.

use std::os::fd::AsFd;

use rustix::net::{Shutdown, shutdown};

/// A socket that ends when this is dropped, copies included.
///
/// A process that is just being started has a copy of every socket until it runs its program, and
/// closing alone would leave that open: to connections, if it listens.
#[derive(Debug)]
pub(super) struct Closing<S: AsFd>(pub(super) S);

impl<S: AsFd> Drop for Closing<S> {
    fn drop(&mut self) {
        // Fails if the other side has ended it already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}
