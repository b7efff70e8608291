//! The manager's own thread: renewals, deadlines, and the releases that nobody awaits.
//!
//! It has its own runtime and connection, so a blocked executor does not lose locks. Leases are
//! entries in a timer queue; there is no task per lease. Taking and giving back a lock costs one
//! entry in that queue, and wakes the thread only if it would otherwise sleep too long.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::{Notify, oneshot};

use crate::clock;
use crate::holding::Holding;
use crate::lease::{Action, Event};
use crate::store::{Owned, Release, Renewal, Store, StoreError};

/// Renewals that are sent together.
const BATCH: usize = 256;
/// Pauses between two attempts to release, growing from the first to the second.
const RELEASE_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The handle of the thread, which ends when all handles are gone and nothing is left to release.
#[derive(Debug, Clone)]
pub(crate) struct Watchdog(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    running: AtomicBool,
    state: Mutex<State>,
    /// The thread has something to do earlier than it planned.
    wake: Notify,
    /// A release is done.
    done: Notify,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    leases: BTreeMap<u64, Entry>,
    /// When which lease needs a look.
    ticks: BTreeSet<(Instant, u64)>,
    releases: Vec<Handover>,
    /// Releases that are queued or on their way.
    unsettled: usize,
    /// Until when the thread sleeps, if it does not sleep for ever.
    asleep_until: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    holding: Arc<Holding>,
    tick: Instant,
}

/// A release that is handed to the thread.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) release: Release,
    /// The template of its key.
    pub(crate) template: Option<&'static str>,
    /// How long it was waited for.
    pub(crate) waited: Duration,
    /// When the lease has run out on the server in any case, and trying becomes pointless.
    pub(crate) until: Instant,
    /// For whoever waits for the first attempt.
    pub(crate) first: Option<oneshot::Sender<Result<Owned, StoreError>>>,
}

impl Watchdog {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self(Arc::new(Handle(Arc::new(Shared {
            store,
            running: AtomicBool::new(false),
            state: Mutex::default(),
            wake: Notify::new(),
            done: Notify::new(),
        }))))
    }

    /// Starts the thread unless it runs.
    ///
    /// # Errors
    ///
    /// When the operating system has no thread to give.
    pub(crate) fn start(&self) -> io::Result<()> {
        let shared = &self.0.0;
        if shared.running.load(Ordering::Acquire) {
            return Ok(());
        }
        let _state = shared.state();
        if shared.running.load(Ordering::Acquire) {
            return Ok(());
        }
        let (report, started) = mpsc::channel();
        let watchdog = Arc::clone(shared);
        thread::Builder::new().name("lock-watchdog".into()).spawn(move || {
            match runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    let running = Running::begin(watchdog);
                    let _ = report.send(Ok(()));
                    runtime.block_on(run(&running.0));
                }
                Err(error) => drop(report.send(Err(error))),
            }
        })?;
        started.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }

    /// Renews a lease and watches its deadline until it is forgotten.
    pub(crate) fn watch(&self, holding: &Arc<Holding>) {
        let Some(tick) = holding.next_tick() else {
            return;
        };
        let mut state = self.0.0.state();
        state.leases.insert(holding.id, Entry { holding: Arc::clone(holding), tick });
        state.ticks.insert((tick, holding.id));
        if state.asleep_until.is_none_or(|until| tick < until) {
            state.asleep_until = Some(tick);
            self.0.0.wake.notify_one();
        }
    }

    /// The opposite of [`watch`](Self::watch).
    pub(crate) fn forget(&self, holding: &Holding) {
        self.0.0.state().forget(holding.id);
    }

    /// Has a lock released in the background, again and again until the store has answered.
    pub(crate) fn release(&self, handover: Handover) {
        let mut state = self.0.0.state();
        state.unsettled += 1;
        state.releases.push(handover);
        if state.releases.len() == 1 {
            self.0.0.wake.notify_one();
        }
    }

    /// Waits until all releases that were handed over are done, and returns how many are not when
    /// `limit` is over.
    pub(crate) async fn drain(&self, limit: Duration) -> usize {
        let shared = &self.0.0;
        let drained = async {
            loop {
                let done = shared.done.notified();
                if shared.state().unsettled == 0 {
                    break;
                }
                done.await;
            }
        };
        let _ = tokio::time::timeout(limit, drained).await;
        shared.state().unsettled
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.wake.notify_one();
    }
}

impl State {
    fn forget(&mut self, id: u64) {
        if let Some(entry) = self.leases.remove(&id) {
            self.ticks.remove(&(entry.tick, id));
        }
    }
}

impl Shared {
    /// A panic elsewhere leaves the state usable: each change to it is complete or not begun.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The leases to renew now. Those that have run out are lost.
    fn due(&self, now: Instant) -> Vec<Arc<Holding>> {
        let mut renewals = Vec::new();
        let mut lost = Vec::new();
        let mut state = self.state();
        while let Some(&(tick, id)) = state.ticks.first().filter(|(tick, _)| *tick <= now) {
            state.ticks.remove(&(tick, id));
            let Some(entry) = state.leases.get_mut(&id) else {
                continue;
            };
            let holding = Arc::clone(&entry.holding);
            let action = holding.step(Event::Tick, now);
            match holding.next_tick() {
                Some(next) => {
                    entry.tick = next;
                    state.ticks.insert((next, id));
                }
                None => drop(state.leases.remove(&id)),
            }
            match action {
                Action::Nothing => {}
                Action::Renew => renewals.push(holding),
                Action::Stop(cause) => lost.push((holding, cause)),
            }
        }
        drop(state);
        for (holding, cause) in lost {
            holding.announce_loss(cause);
        }
        renewals
    }

    /// Sends renewals and takes note of what became of them.
    async fn renew(self: Arc<Self>, holdings: Vec<Arc<Holding>>) {
        let renewals: Vec<Renewal> = holdings.iter().map(|holding| holding.renewal()).collect();
        let sent = clock::now();
        let answers = self.store.renew(&renewals).await;
        let now = clock::now();
        for (holding, answer) in holdings.iter().zip(answers) {
            let event = match answer {
                Ok(Owned::Yes) => Event::Renewed { sent },
                Ok(Owned::No) => Event::NotOurs,
                Err(error) => {
                    holding.report_failed_renewal(&error, self.store.name());
                    Event::RenewalFailed
                }
            };
            if let Action::Stop(cause) = holding.renewal_answered(event, now) {
                holding.announce_loss(cause);
            } else if event == (Event::Renewed { sent }) {
                holding.report_renewal();
            }
            self.reschedule(holding);
        }
    }

    fn reschedule(&self, holding: &Holding) {
        let id = holding.id;
        let mut state = self.state();
        let Some(entry) = state.leases.get_mut(&id) else {
            return;
        };
        match holding.next_tick() {
            Some(next) => {
                let before = std::mem::replace(&mut entry.tick, next);
                state.ticks.remove(&(before, id));
                state.ticks.insert((next, id));
                if state.asleep_until.is_none_or(|until| next < until) {
                    self.wake.notify_one();
                }
            }
            None => state.forget(id),
        }
    }

    /// Releases a lock, again and again until the store has answered or the lease has run out.
    async fn release(self: Arc<Self>, mut handover: Handover, _unsettled: Unsettled) {
        let (mut pause, longest) = RELEASE_PAUSE;
        let Handover { release, template, waited, .. } = &handover;
        let (key, template, waited) = (release.key.clone(), *template, *waited);
        let store = self.store.name();
        loop {
            let answer = self.store.release(&handover.release).await;
            let now = Instant::now();
            let give_up = now + pause >= handover.until;
            match &answer {
                Ok(_) => tracing::debug!(%key, template, ?waited, "released"),
                Err(error) if give_up => {
                    tracing::warn!(%key, template, ?waited, store, %error, "could not release, left to expire");
                }
                Err(error) => {
                    tracing::debug!(%key, template, ?waited, store, %error, "could not release yet");
                }
            }
            let settled = answer.is_ok() || give_up;
            if let Some(first) = handover.first.take() {
                let _ = first.send(answer);
            }
            if settled {
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

/// The thread, for as long as it runs. Should it panic, the next request starts another one, which
/// goes on with the leases.
struct Running(Arc<Shared>);

impl Running {
    fn begin(shared: Arc<Shared>) -> Self {
        shared.running.store(true, Ordering::Release);
        Self(shared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
        // Nobody shall wait for a release that waits for the next thread.
        self.0.state().releases.iter_mut().for_each(|handover| handover.first = None);
    }
}

/// A release on its way.
struct Unsettled(Arc<Shared>);

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.0.state().unsettled -= 1;
        self.0.done.notify_waiters();
        self.0.wake.notify_one();
    }
}

async fn run(shared: &Arc<Shared>) {
    // Opens the connection before it is needed in a hurry.
    tokio::spawn(Arc::clone(shared).renew(Vec::new()));
    loop {
        let mut shards = BTreeMap::<_, Vec<_>>::new();
        for holding in shared.due(clock::now()) {
            shards.entry(shared.store.shard(&holding.key)).or_default().push(holding);
        }
        for batch in shards.values().flat_map(|shard| shard.chunks(BATCH)) {
            tokio::spawn(Arc::clone(shared).renew(batch.to_vec()));
        }
        let (releases, next) = {
            let mut state = shared.state();
            if state.closed && state.unsettled == 0 {
                return;
            }
            state.asleep_until = state.ticks.first().map(|(tick, _)| *tick);
            (std::mem::take(&mut state.releases), state.asleep_until)
        };
        for handover in releases {
            tokio::spawn(Arc::clone(shared).release(handover, Unsettled(Arc::clone(shared))));
        }
        let sleep = async {
            match next {
                Some(next) => {
                    let left = next.saturating_duration_since(clock::now());
                    tokio::time::sleep(left).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.wake.notified() => {}
            () = sleep => {}
        }
    }
}

/// With the time that the test says, and without the thread.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LossCause;
    use crate::holding::Grant;
    use crate::lease::Terms;
    use crate::store::memory::MemoryStore;
    use crate::{Fence, Key, Token};

    const MS: Duration = Duration::from_millis(1);

    /// A watchdog with leases that were granted at one instant.
    fn watched(count: usize, ttl: Duration) -> (Watchdog, Vec<Arc<Holding>>, Instant) {
        let (watchdog, start) = (Watchdog::new(Arc::new(MemoryStore::default())), clock::now());
        let terms = Terms { ttl, renew: true, max_hold: None, min_hold: Duration::ZERO };
        let holdings: Vec<_> = (0..count)
            .map(|_| {
                let token = Token::random().unwrap();
                let grant = Grant { token, fence: Fence::new(1), sent: start };
                Arc::new(Holding::new(Key::from("k"), None, grant, terms, Instant::now()))
            })
            .collect();
        for holding in &holdings {
            watchdog.watch(holding);
        }
        (watchdog, holdings, start)
    }

    /// Renews what is due, and gives how many leases that were.
    fn renew(shared: &Shared, now: Instant) -> usize {
        let due = shared.due(now);
        for holding in &due {
            let action = holding.renewal_answered(Event::Renewed { sent: now }, now + MS);
            assert_eq!(action, Action::Nothing);
            shared.reschedule(holding);
        }
        due.len()
    }

    #[test]
    fn f103_leases_that_were_taken_at_once_are_renewed_one_after_the_other() {
        const COUNT: usize = 1_000;
        let (watchdog, holdings, start) = watched(COUNT, MS * 30_000);
        let (mut all, mut busiest) = (0, 0);
        for step in 1..=36_000 {
            let renewed = renew(&watchdog.0.0, start + MS * 100 * step);
            all += renewed;
            busiest = busiest.max(renewed);
        }
        let hour = MS * 3_600_000;
        assert!(
            holdings
                .iter()
                .all(|holding| holding.step(Event::Check, start + hour) == Action::Nothing)
        );
        let least = COUNT * 3_600 / 21; // each of them after 70 % of its validity at the latest
        assert!(all > least && all < least * 6 / 5, "{all} renewals, {least} are needed");
        assert!(busiest < COUNT / 10, "{busiest} at once");
    }

    #[test]
    fn f29_a_long_pause_is_not_made_up_for() {
        let (watchdog, _holdings, start) = watched(100, MS * 90_000);
        let shared = &watchdog.0.0;
        let later = start + MS * 80_000; // nearly four thirds of the time to the first renewal
        assert_eq!(renew(shared, later), 100);
        for ms in 0..1_000 {
            assert_eq!(shared.due(later + MS * ms).len(), 0, "{ms} ms later");
        }
    }

    #[test]
    fn f08_a_lease_whose_renewals_are_not_answered_ends_at_its_deadline() {
        let (watchdog, holdings, start) = watched(1, MS * 1_000);
        let (shared, holding) = (&watchdog.0.0, &holdings[0]);
        let deadline = start + holding.remaining();
        let mut attempts = 0;
        let mut now = start;
        while let Some(tick) = holding.next_tick() {
            assert!(tick > now, "time stands still");
            now = tick;
            attempts += shared.due(now).len();
        }
        assert!(attempts >= 3, "{attempts}");
        assert!(now <= deadline + MS * 10 && now + MS * 10 >= deadline, "{:?}", now - start);
        assert_eq!(holding.loss(), Some(LossCause::Expired));
        assert!(shared.state().leases.is_empty() && shared.state().ticks.is_empty());
    }
}
