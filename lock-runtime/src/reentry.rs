//! The locks that the running call chain holds, so that it does not wait for itself.

use std::cell::RefCell;

use crate::key::Key;

thread_local! {
    /// The locks whose bodies are being polled on this thread, outermost first.
    static HELD: RefCell<Vec<(usize, Key)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `poll`, which polls a body that holds `key` with the manager `manager`.
pub(crate) fn while_holding<T>(manager: usize, key: &Key, poll: impl FnOnce() -> T) -> T {
    /// Removes the entry even if the poll panics.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| held.borrow_mut().pop());
        }
    }

    let entered = HELD.try_with(|held| held.borrow_mut().push((manager, key.clone())));
    let _leave = entered.ok().map(|()| Leave);
    poll()
}

/// Whether a body that is being polled on this thread holds `key` with the manager `manager`.
pub(crate) fn holds(manager: usize, key: &Key) -> bool {
    HELD.try_with(|held| held.borrow().iter().any(|(m, k)| *m == manager && k == key))
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_ends_with_the_poll_even_on_panic() {
        let key = Key::from("k");
        while_holding(1, &key, || {
            assert!(holds(1, &key));
            assert!(!holds(2, &key) && !holds(1, &"other".into()));
        });
        assert!(std::panic::catch_unwind(|| while_holding(1, &key, || panic!("boom"))).is_err());
        assert!(!holds(1, &key));
    }
}
