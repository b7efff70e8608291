//! The watchdog: the manager's own thread for renewals, deadlines and background releases.
//!
//! It has its own runtime and connection, so a blocked executor does not lose locks. Leases are
//! entries in a timer queue, without a task per lease. Taking and releasing a lock costs one entry
//! in that queue, and wakes the thread only if it would otherwise sleep too long.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::{Notify, oneshot};

use super::clock;
use super::shared::SharedLease;
use super::state::{Action, Event};
use crate::store::{Owned, Release, Renewal, Store, StoreError};
use crate::sync::lock;

/// How many renewals are sent together.
const BATCH: usize = 256;
/// The backoff between two tries of a release: the first delay and the longest.
const RELEASE_BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The handle of the thread, which ends when all handles are gone and no release is pending.
#[derive(Debug, Clone)]
pub(crate) struct Watchdog(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    running: AtomicBool,
    state: Mutex<State>,
    /// Notified when the thread has to wake earlier than planned.
    wake: Notify,
    /// Notified when a release is done.
    released: Notify,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    leases: BTreeMap<u64, Entry>,
    /// The time of the next tick of each lease.
    ticks: BTreeSet<(Instant, u64)>,
    releases: Vec<ReleaseJob>,
    /// How many releases are queued or in flight.
    pending_releases: usize,
    /// When the thread plans to wake; `None`: not at all.
    asleep_until: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    lease: Arc<SharedLease>,
    tick: Instant,
}

/// A release that the thread carries out.
#[derive(Debug)]
pub(crate) struct ReleaseJob {
    pub(crate) release: Release,
    /// The template of the key.
    pub(crate) template: Option<&'static str>,
    /// How long the holder waited for the lock.
    pub(crate) waited: Duration,
    /// When the lease has run out on the server at the latest, and further tries are pointless.
    pub(crate) until: Instant,
    /// Receives the result of the first try.
    pub(crate) first: Option<oneshot::Sender<Result<Owned, StoreError>>>,
}

impl Watchdog {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self(Arc::new(Handle(Arc::new(Shared {
            store,
            running: AtomicBool::new(false),
            state: Mutex::default(),
            wake: Notify::new(),
            released: Notify::new(),
        }))))
    }

    /// Starts the thread unless it is running.
    ///
    /// # Errors
    ///
    /// An error of the operating system that prevents the start of a thread.
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
    pub(crate) fn watch(&self, lease: &Arc<SharedLease>) {
        let Some(tick) = lease.next_tick() else {
            return;
        };
        let mut state = self.0.0.state();
        state.leases.insert(lease.id, Entry { lease: Arc::clone(lease), tick });
        state.ticks.insert((tick, lease.id));
        if state.asleep_until.is_none_or(|until| tick < until) {
            state.asleep_until = Some(tick);
            self.0.0.wake.notify_one();
        }
    }

    /// Stops watching a lease.
    pub(crate) fn forget(&self, lease: &SharedLease) {
        self.0.0.state().forget(lease.id);
    }

    /// Releases a lock in the background, and retries until the store has replied.
    pub(crate) fn release(&self, job: ReleaseJob) {
        let mut state = self.0.0.state();
        state.pending_releases += 1;
        state.releases.push(job);
        if state.releases.len() == 1 {
            self.0.0.wake.notify_one();
        }
    }

    /// Waits until all background releases are done, and returns how many are still pending when
    /// `limit` is over.
    pub(crate) async fn drain(&self, limit: Duration) -> usize {
        let shared = &self.0.0;
        let drained = async {
            loop {
                let released = shared.released.notified();
                if shared.state().pending_releases == 0 {
                    break;
                }
                released.await;
            }
        };
        let _ = tokio::time::timeout(limit, drained).await;
        shared.state().pending_releases
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
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the leases to renew now, and stops the holders of leases that have run out.
    fn due(&self, now: Instant) -> Vec<Arc<SharedLease>> {
        let mut renewals = Vec::new();
        let mut lost = Vec::new();
        let mut state = self.state();
        while let Some(&(tick, id)) = state.ticks.first().filter(|(tick, _)| *tick <= now) {
            state.ticks.remove(&(tick, id));
            let Some(entry) = state.leases.get_mut(&id) else {
                continue;
            };
            let lease = Arc::clone(&entry.lease);
            let action = lease.step(Event::Tick, now);
            match lease.next_tick() {
                Some(next) => {
                    entry.tick = next;
                    state.ticks.insert((next, id));
                }
                None => drop(state.leases.remove(&id)),
            }
            match action {
                Action::Nothing => {}
                Action::Renew => renewals.push(lease),
                Action::Stop(cause) => lost.push((lease, cause)),
            }
        }
        drop(state);
        for (lease, cause) in lost {
            lease.report_loss(cause);
        }
        renewals
    }

    /// Sends renewals and applies their outcomes.
    async fn renew(self: Arc<Self>, leases: Vec<Arc<SharedLease>>) {
        let renewals: Vec<Renewal> = leases.iter().map(|lease| lease.renewal()).collect();
        let sent = clock::now();
        let results = self.store.renew(&renewals).await;
        let now = clock::now();
        for (lease, result) in leases.iter().zip(results) {
            let event = match result {
                Ok(Owned::Yes) => Event::Renewed { sent },
                Ok(Owned::No) => Event::NotOurs,
                Err(error) => {
                    lease.report_failed_renewal(&error, self.store.name());
                    Event::RenewalFailed
                }
            };
            if let Action::Stop(cause) = lease.finish_renewal(event, now) {
                lease.report_loss(cause);
            } else if event == (Event::Renewed { sent }) {
                lease.report_renewal();
            }
            self.reschedule(lease);
        }
    }

    fn reschedule(&self, lease: &SharedLease) {
        let id = lease.id;
        let mut state = self.state();
        let Some(entry) = state.leases.get_mut(&id) else {
            return;
        };
        match lease.next_tick() {
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

    /// Releases a lock, and retries until the store has replied or the lease has run out.
    async fn release(self: Arc<Self>, mut job: ReleaseJob, _pending: PendingRelease) {
        let (mut delay, longest) = RELEASE_BACKOFF;
        let ReleaseJob { release, template, waited, until, .. } = &job;
        let (release, template, waited, until) = (release.clone(), *template, *waited, *until);
        let (key, store) = (&release.key, self.store.name());
        loop {
            let result = self.store.release(&release).await;
            let give_up = Instant::now() + delay >= until;
            match &result {
                Ok(_) => tracing::debug!(%key, template, ?waited, "released"),
                Err(error) if give_up => tracing::warn!(
                    %key, template, ?waited, store, %error,
                    "release failed, the lock will expire"
                ),
                Err(error) => tracing::debug!(
                    %key, template, ?waited, store, %error,
                    "release failed, will be retried"
                ),
            }
            let is_done = result.is_ok() || give_up;
            if let Some(first) = job.first.take() {
                let _ = first.send(result);
            }
            if is_done {
                break;
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(longest);
        }
    }

    /// Starts the renewals and the releases that are due. Returns when to wake next, or `None` when
    /// the manager is gone and no release is pending.
    fn start_due(self: &Arc<Self>) -> Option<Wake> {
        let mut shards = BTreeMap::<_, Vec<_>>::new();
        for lease in self.due(clock::now()) {
            shards.entry(self.store.shard(&lease.key)).or_default().push(lease);
        }
        for batch in shards.values().flat_map(|shard| shard.chunks(BATCH)) {
            tokio::spawn(Arc::clone(self).renew(batch.to_vec()));
        }
        let (releases, next) = {
            let mut state = self.state();
            if state.closed && state.pending_releases == 0 {
                return None;
            }
            // A plan for a lease that has ended meanwhile is kept: otherwise each new lease would wake the
            // thread, which finds that the lease has ended, and sleeps without a plan again.
            let planned = state.asleep_until.filter(|until| *until > clock::now());
            let first = state.ticks.first().map(|(tick, _)| *tick);
            state.asleep_until = first.into_iter().chain(planned).min();
            (std::mem::take(&mut state.releases), state.asleep_until)
        };
        for job in releases {
            tokio::spawn(Arc::clone(self).release(job, PendingRelease(Arc::clone(self))));
        }
        Some(Wake(next))
    }
}

/// When the thread wakes next; `None`: when it is notified.
struct Wake(Option<Instant>);

impl Wake {
    async fn sleep(self) {
        match self.0 {
            Some(next) => {
                let left = next.saturating_duration_since(clock::now());
                tokio::time::sleep(left).await;
            }
            None => std::future::pending().await,
        }
    }
}

/// The thread, for as long as it runs. After a panic, the next request starts another thread, which
/// takes over the leases.
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
        // A caller must not wait for a release that itself waits for the next thread.
        self.0.state().releases.iter_mut().for_each(|job| job.first = None);
    }
}

/// Counts a release as pending until it is dropped.
struct PendingRelease(Arc<Shared>);

impl Drop for PendingRelease {
    fn drop(&mut self) {
        self.0.state().pending_releases -= 1;
        self.0.released.notify_waiters();
        self.0.wake.notify_one();
    }
}

async fn run(shared: &Arc<Shared>) {
    let starting = Arc::clone(shared);
    tokio::spawn(async move { starting.store.start().await });
    while let Some(next) = shared.start_due() {
        tokio::select! {
            () = shared.wake.notified() => {}
            () = next.sleep() => {}
        }
    }
}

/// On a made-up clock, without the thread.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LossCause;
    use crate::fence::Fence;
    use crate::key::Key;
    use crate::lease::shared::Grant;
    use crate::lease::terms::Terms;
    use crate::store::memory::MemoryStore;
    use crate::token::Token;

    const MS: Duration = Duration::from_millis(1);

    /// A watchdog with leases that were granted at the same instant.
    fn watched(count: usize, ttl: Duration) -> (Watchdog, Vec<Arc<SharedLease>>, Instant) {
        let (watchdog, start) = (Watchdog::new(Arc::new(MemoryStore::default())), clock::now());
        let terms = Terms { ttl, renew: true, max_hold: None, min_hold: Duration::ZERO };
        let leases: Vec<_> = (0..count)
            .map(|_| {
                let token = Token::random().unwrap();
                let grant = Grant { token, fence: Fence::new(1), sent: start };
                Arc::new(SharedLease::new(Key::from("k"), None, grant, terms, Instant::now()))
            })
            .collect();
        for lease in &leases {
            watchdog.watch(lease);
        }
        (watchdog, leases, start)
    }

    /// Renews the leases that are due, and returns how many there were.
    fn renew(shared: &Shared, now: Instant) -> usize {
        let due = shared.due(now);
        for lease in &due {
            let action = lease.finish_renewal(Event::Renewed { sent: now }, now + MS);
            assert_eq!(action, Action::Nothing);
            shared.reschedule(lease);
        }
        due.len()
    }

    #[test]
    fn f103_leases_taken_together_are_renewed_apart() {
        const COUNT: usize = 1_000;
        let (watchdog, leases, start) = watched(COUNT, MS * 30_000);
        let (mut all, mut busiest) = (0, 0);
        for step in 1..=36_000 {
            let renewed = renew(&watchdog.0.0, start + MS * 100 * step);
            all += renewed;
            busiest = busiest.max(renewed);
        }
        let hour = MS * 3_600_000;
        assert!(
            leases.iter().all(|lease| lease.step(Event::Check, start + hour) == Action::Nothing)
        );
        let least = COUNT * 3_600 / 21; // each after 70 % of its validity at the latest
        assert!(all > least && all < least * 6 / 5, "{all} renewals, {least} are needed");
        assert!(busiest < COUNT / 10, "{busiest} at once");
    }

    #[test]
    fn keeps_its_plan_when_a_lease_ends_early() {
        let (watchdog, leases, _) = watched(1, MS * 30_000);
        let planned = || watchdog.0.0.start_due().and_then(|wake| wake.0);
        assert_eq!(planned(), leases[0].next_tick());
        watchdog.forget(&leases[0]);
        assert_eq!(planned(), leases[0].next_tick());
    }

    #[test]
    fn f29_long_pause_causes_one_renewal_per_lease() {
        let (watchdog, _leases, start) = watched(100, MS * 90_000);
        let shared = &watchdog.0.0;
        let later = start + MS * 80_000; // long after the first renewals were due
        assert_eq!(renew(shared, later), 100);
        for ms in 0..1_000 {
            assert_eq!(shared.due(later + MS * ms).len(), 0, "{ms} ms later");
        }
    }

    #[test]
    fn f08_lease_without_replies_ends_at_its_deadline() {
        let (watchdog, leases, start) = watched(1, MS * 1_000);
        let (shared, lease) = (&watchdog.0.0, &leases[0]);
        let deadline = start + lease.remaining();
        let mut renewals = 0;
        let mut now = start;
        while let Some(tick) = lease.next_tick() {
            assert!(tick > now, "time stands still");
            now = tick;
            renewals += shared.due(now).len();
        }
        assert!(renewals >= 3, "{renewals}");
        assert!(now <= deadline + MS * 10 && now + MS * 10 >= deadline, "{:?}", now - start);
        assert_eq!(lease.loss(), Some(LossCause::Expired));
        assert!(shared.state().leases.is_empty() && shared.state().ticks.is_empty());
    }
}
