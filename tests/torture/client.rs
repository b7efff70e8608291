//! A client process: two tasks that take locks by turns and count under them.

use std::any::Any;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, panic};

use fastrand::Rng;
use lock_runtime::{LockError, LockManager};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::history::{Attempt, Event, Log};
use crate::millis;
use crate::turn::{Intended, Turn, Way};

/// A folder's file whose presence asks the clients to end.
pub(crate) const STOP: &str = "stop";

const TASKS: u64 = 2;

/// How a client process is started.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// The server or servers, as this client reaches them
    pub(crate) url: String,
    /// How many replicas have to acknowledge each grant
    pub(crate) replicas: u32,
    /// The folder of the history and of the resource's socket
    pub(crate) dir: PathBuf,
    /// Which client this is
    pub(crate) client: usize,
    /// How often it was killed before
    pub(crate) life: u32,
    /// What all random choices depend on
    pub(crate) seed: u64,
}

impl Options {
    /// This program, as a client.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        let Self { url, replicas, dir, client, life, seed } = self;
        command.args(["client", url, &replicas.to_string()]).arg(dir);
        command.args([client.to_string(), life.to_string(), seed.to_string()]);
        command
    }
}

/// What the tasks of a client share.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) locks: LockManager,
    pub(crate) log: Log,
    pub(crate) options: Options,
    turns: AtomicU32,
}

/// Takes locks until the clients are told to stop.
pub(crate) async fn run(options: Options) {
    let log = Log::create(&options.dir, &format!("client-{}-{}", options.client, options.life));
    let locks = connect(&options).await;
    let mut random = Rng::with_seed(options.seed);
    let client = Arc::new(Client { locks, log, options, turns: AtomicU32::new(0) });
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(take_turns(Arc::clone(&client), random.fork()));
    }
    tasks.join_all().await;
    client.locks.shutdown().await;
}

async fn connect(options: &Options) -> LockManager {
    loop {
        let builder = LockManager::builder().replicas(options.replicas);
        match builder.connect(&options.url).await {
            Ok(locks) => return locks,
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn take_turns(client: Arc<Client>, mut random: Rng) {
    while !client.options.dir.join(STOP).exists() {
        let Options { client: id, life, .. } = client.options;
        let attempt = Attempt(id, life, client.turns.fetch_add(1, Ordering::Relaxed));
        let turn = Turn::random(&client, attempt, &mut random);
        // Nothing would end the watch over a lock that was forgotten.
        let cancels = turn.way != Way::Forget && random.u8(..10) == 0;
        let limit = if cancels { millis(random.u64(..500)) } else { Duration::MAX };

        client.log.note(Event::Asked { attempt, key: turn.key });
        let ended = end(tokio::spawn(turn.take()), limit).await;
        client.log.note(Event::Returned { attempt, outcome: outcome(ended) });
        sleep(millis(random.u64(..20))).await;
    }
}

/// How a task of its own ends, which is aborted when `limit` is over.
async fn end<T>(mut task: JoinHandle<T>, limit: Duration) -> Result<T, JoinError> {
    if let Ok(ended) = timeout(limit, &mut task).await {
        return ended;
    }
    task.abort();
    task.await
}

fn outcome(ended: Result<Result<(), LockError>, JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "done".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => match error.try_into_panic() {
            Ok(panic) if !is_intended(&*panic) => panic::resume_unwind(panic),
            Ok(_) => "panicked".to_owned(),
            Err(_) => "cancelled".to_owned(),
        },
    }
}

fn is_intended(panic: &(dyn Any + Send)) -> bool {
    panic.is::<Intended>()
}
