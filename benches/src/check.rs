//! Whether two bodies ever run at the same time.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;

/// A room for one at a time, known to all processes that open the same file.
///
/// Inside one process it is guarded by a flag, between processes by a lock of the operating system,
/// and neither ever waits: somebody who finds the room taken is counted.
#[derive(Debug)]
pub(crate) struct Check {
    file: File,
    taken: AtomicBool,
    overlaps: AtomicU64,
}

/// Somebody in the room, until this is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'a>(Option<&'a Check>);

impl Check {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::create(path)?;
        Ok(Self { file, taken: AtomicBool::new(false), overlaps: AtomicU64::new(0) })
    }

    pub(crate) fn enter(&self) -> Inside<'_> {
        if self.taken.swap(true, Ordering::AcqRel) {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
            return Inside(None);
        }
        if self.file.try_lock().is_err() {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        Inside(Some(self))
    }

    /// How often the room was found taken.
    pub(crate) fn overlaps(&self) -> u64 {
        self.overlaps.load(Ordering::Relaxed)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(check) = self.0 {
            check.file.unlock().expect("a file can be unlocked, locked or not");
            check.taken.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_overlaps_within_a_process_and_between_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("room");
        let (here, there) = (Check::open(&path).unwrap(), Check::open(&path).unwrap());
        drop(here.enter());
        drop(there.enter());
        assert_eq!((here.overlaps(), there.overlaps()), (0, 0));

        let first = here.enter();
        drop(here.enter());
        drop(there.enter());
        drop(first);
        drop(there.enter());
        assert_eq!((here.overlaps(), there.overlaps()), (1, 1));
    }
}
