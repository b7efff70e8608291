//! A client process: two tasks that take locks one after the other and increment counters.

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
use crate::operation::{Operation, PlannedPanic, Usage};

/// The file whose presence in the folder stops the clients.
pub(crate) const STOP: &str = "stop";

const TASKS: u64 = 2;

/// The arguments of a client process.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// URL of the server or servers, as this client reaches them
    pub(crate) url: String,
    /// Number of replicas that have to acknowledge each grant
    pub(crate) replicas: u32,
    /// Folder of the history and of the resource's socket
    pub(crate) dir: PathBuf,
    /// Number of this client
    pub(crate) client: usize,
    /// How often this client was killed and restarted
    pub(crate) restarts: u32,
    /// Seed of all random choices
    pub(crate) seed: u64,
}

impl Options {
    /// Returns the command that runs this program as a client.
    pub(crate) fn command(&self) -> Command {
        let program = env::current_exe().expect("the path of this program is unknown");
        let mut command = Command::new(program);
        let Self { url, replicas, dir, client, restarts, seed } = self;
        command.args(["client", url, &replicas.to_string()]).arg(dir);
        command.args([client.to_string(), restarts.to_string(), seed.to_string()]);
        command
    }
}

/// State that the tasks of a client share.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) locks: LockManager,
    pub(crate) log: Log,
    pub(crate) options: Options,
    operations: AtomicU32,
}

/// Takes locks until the stop file appears.
pub(crate) async fn run(options: Options) {
    let log = Log::create(&options.dir, &format!("client-{}-{}", options.client, options.restarts));
    let locks = connect(&options).await;
    let mut random = Rng::with_seed(options.seed);
    let client = Arc::new(Client { locks, log, options, operations: AtomicU32::new(0) });
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(run_operations(Arc::clone(&client), random.fork()));
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

async fn run_operations(client: Arc<Client>, mut random: Rng) {
    while !client.options.dir.join(STOP).exists() {
        let Options { client: id, restarts, .. } = client.options;
        let number = client.operations.fetch_add(1, Ordering::Relaxed);
        let attempt = Attempt(id, restarts, number);
        let operation = Operation::random(&client, attempt, &mut random);
        // A forgotten guard outlives a cancelled task, which could not record the end of the hold.
        let cancels = operation.usage != Usage::Forget && random.u8(..10) == 0;
        let limit = if cancels { millis(random.u64(..500)) } else { Duration::MAX };

        client.log.record(Event::Asked { attempt, key: operation.key });
        let result = join_or_abort(tokio::spawn(operation.run()), limit).await;
        client.log.record(Event::Returned { attempt, outcome: outcome(result) });
        sleep(millis(random.u64(..20))).await;
    }
}

/// Joins a task, aborting it after `limit`.
async fn join_or_abort<T>(mut task: JoinHandle<T>, limit: Duration) -> Result<T, JoinError> {
    if let Ok(result) = timeout(limit, &mut task).await {
        return result;
    }
    task.abort();
    task.await
}

fn outcome(result: Result<Result<(), LockError>, JoinError>) -> String {
    match result {
        Ok(Ok(())) => "done".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => match error.try_into_panic() {
            Ok(panic) if !is_planned(&*panic) => panic::resume_unwind(panic),
            Ok(_) => "panicked".to_owned(),
            Err(_) => "cancelled".to_owned(),
        },
    }
}

fn is_planned(panic: &(dyn Any + Send)) -> bool {
    panic.is::<PlannedPanic>()
}
