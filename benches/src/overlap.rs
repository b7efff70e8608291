//! Detects bodies that run at the same time, without Redis.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;

/// Counts bodies that begin while another one runs, in any process that opens the same file.
///
/// A flag detects them within a process, and a file lock between processes. Neither ever waits.
#[derive(Debug)]
pub(crate) struct OverlapDetector {
    file: File,
    running: AtomicBool,
    overlaps: AtomicU64,
}

/// A running body, until this is dropped. It is empty for a body that overlaps another one.
#[derive(Debug)]
pub(crate) struct Running<'a>(Option<&'a OverlapDetector>);

impl OverlapDetector {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::create(path)?;
        Ok(Self { file, running: AtomicBool::new(false), overlaps: AtomicU64::new(0) })
    }

    pub(crate) fn enter(&self) -> Running<'_> {
        if self.running.swap(true, Ordering::AcqRel) {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
            return Running(None);
        }
        if self.file.try_lock().is_err() {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        Running(Some(self))
    }

    /// Returns the number of overlaps so far.
    pub(crate) fn overlaps(&self) -> u64 {
        self.overlaps.load(Ordering::Relaxed)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(detector) = self.0 {
            detector.file.unlock().expect("failed to unlock the file");
            detector.running.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_overlaps_within_a_process_and_between_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("body");
        let here = OverlapDetector::open(&path).unwrap();
        let there = OverlapDetector::open(&path).unwrap();
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
