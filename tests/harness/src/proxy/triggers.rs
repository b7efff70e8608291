//! What happens when a client sends certain bytes.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::oneshot;

/// How long a pattern may be: so much of what came before is kept for one that came in pieces.
const LONGEST: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Triggers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    tell: Vec<(Vec<u8>, oneshot::Sender<()>)>,
    lose_reply: Vec<Vec<u8>>,
}

/// The last bytes that one client has sent.
#[derive(Debug, Default)]
pub(super) struct Recent(Vec<u8>);

impl Triggers {
    pub(super) fn tell_of(&self, pattern: &[u8]) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        self.waiting().tell.push((checked(pattern), tell));
        told
    }

    pub(super) fn lose_reply_to(&self, pattern: &[u8]) {
        self.waiting().lose_reply.push(checked(pattern));
    }

    /// Fires what waits for `bytes`, and says whether their reply is to be lost.
    pub(super) fn fire(&self, recent: &mut Recent, bytes: &[u8]) -> bool {
        recent.push(bytes);
        let sent = |pattern: &[u8]| recent.ends_with_new(pattern, bytes.len());
        let mut waiting = self.waiting();
        for (_, tell) in waiting.tell.extract_if(.., |(pattern, _)| sent(pattern)) {
            // Nobody listens any more when the test has dropped the future.
            let _ = tell.send(());
        }
        let lost = waiting.lose_reply.iter().position(|pattern| sent(pattern));
        lost.map(|index| waiting.lose_reply.remove(index)).is_some()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().expect("no panic under the lock")
    }
}

impl Recent {
    fn push(&mut self, bytes: &[u8]) {
        let surplus = self.0.len().saturating_sub(LONGEST);
        self.0.drain(..surplus);
        self.0.extend_from_slice(bytes);
    }

    /// Whether `pattern` ends somewhere in the last `new` bytes.
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
    fn a_pattern_may_come_in_pieces() {
        let (triggers, mut recent) = (Triggers::default(), Recent::default());
        let mut told = triggers.tell_of(b"SET");
        triggers.fire(&mut recent, b"..S");
        triggers.fire(&mut recent, b"E");
        assert!(told.try_recv().is_err());
        triggers.fire(&mut recent, b"T..");
        assert!(told.try_recv().is_ok());
    }

    #[test]
    fn what_came_before_does_not_count() {
        let (triggers, mut recent) = (Triggers::default(), Recent::default());
        triggers.fire(&mut recent, b"SET");
        let mut told = triggers.tell_of(b"SET");
        triggers.fire(&mut recent, b" k v");
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn one_loss_is_for_one_command() {
        let (triggers, mut recent) = (Triggers::default(), Recent::default());
        triggers.lose_reply_to(b"SET");
        triggers.lose_reply_to(b"SET");
        assert!(triggers.fire(&mut recent, b"SET a"));
        assert!(!triggers.fire(&mut recent, b"GET a"));
        assert!(triggers.fire(&mut recent, b"SET b"));
        assert!(!triggers.fire(&mut recent, b"SET c"));
    }
}
