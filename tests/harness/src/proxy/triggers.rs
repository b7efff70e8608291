//! Reactions to bytes that a client sends.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::oneshot;

/// The longest pattern. This many earlier bytes are kept, for patterns that arrive in pieces.
const LONGEST: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Triggers(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    notify: Vec<(Vec<u8>, oneshot::Sender<()>)>,
    lose_reply: Vec<Vec<u8>>,
}

/// The last bytes that one client has sent.
#[derive(Debug, Default)]
pub(super) struct Recent(Vec<u8>);

impl Triggers {
    pub(super) fn notify_on(&self, pattern: &[u8]) -> oneshot::Receiver<()> {
        let (notify, notified) = oneshot::channel();
        self.pending().notify.push((checked(pattern), notify));
        notified
    }

    pub(super) fn lose_reply_to(&self, pattern: &[u8]) {
        self.pending().lose_reply.push(checked(pattern));
    }

    /// Fires the triggers that match and returns whether the reply must be lost.
    pub(super) fn fire(&self, recent: &mut Recent, bytes: &[u8]) -> bool {
        recent.push(bytes);
        let sent = |pattern: &[u8]| recent.ends_with_new(pattern, bytes.len());
        let mut pending = self.pending();
        for (_, notify) in pending.notify.extract_if(.., |(pattern, _)| sent(pattern)) {
            // Fails if the test has dropped the future.
            let _ = notify.send(());
        }
        let lost = pending.lose_reply.iter().position(|pattern| sent(pattern));
        lost.map(|index| pending.lose_reply.remove(index)).is_some()
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().expect("no panic under the lock")
    }
}

impl Recent {
    fn push(&mut self, bytes: &[u8]) {
        let surplus = self.0.len().saturating_sub(LONGEST);
        self.0.drain(..surplus);
        self.0.extend_from_slice(bytes);
    }

    /// Returns whether `pattern` ends within the last `new` bytes.
    fn ends_with_new(&self, pattern: &[u8], new: usize) -> bool {
        let old = self.0.len() - new;
        let start = (old + 1).saturating_sub(pattern.len());
        self.0[start..].windows(pattern.len()).any(|window| window == pattern)
    }
}

fn checked(pattern: &[u8]) -> Vec<u8> {
    assert!((1..=LONGEST).contains(&pattern.len()), "a pattern has 1 to {LONGEST} bytes");
    pattern.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_pattern_in_pieces() {
        let (triggers, mut recent) = (Triggers::default(), Recent::default());
        let mut notified = triggers.notify_on(b"SET");
        triggers.fire(&mut recent, b"..S");
        triggers.fire(&mut recent, b"E");
        assert!(notified.try_recv().is_err());
        triggers.fire(&mut recent, b"T..");
        assert!(notified.try_recv().is_ok());
    }

    #[test]
    fn ignores_earlier_bytes() {
        let (triggers, mut recent) = (Triggers::default(), Recent::default());
        triggers.fire(&mut recent, b"SET");
        let mut notified = triggers.notify_on(b"SET");
        triggers.fire(&mut recent, b" k v");
        assert!(notified.try_recv().is_err());
    }

    #[test]
    fn loses_one_reply_per_call() {
        let (triggers, mut recent) = (Triggers::default(), Recent::default());
        triggers.lose_reply_to(b"SET");
        triggers.lose_reply_to(b"SET");
        assert!(triggers.fire(&mut recent, b"SET a"));
        assert!(!triggers.fire(&mut recent, b"GET a"));
        assert!(triggers.fire(&mut recent, b"SET b"));
        assert!(!triggers.fire(&mut recent, b"SET c"));
    }
}
