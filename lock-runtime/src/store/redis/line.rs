//! One connection to a server.

use std::pin::pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, ProtocolVersion, RedisError, Value};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::answer::{Told, unexpected};
use super::fault;
use super::fences::{Epoch, Fences};
use super::server::Common;
use crate::store::StoreError;
use crate::{Fence, token};

/// Answers that may be missing in a row before a connection is replaced. A connection into a black
/// hole shows nothing else, for hours.
const MAX_DOUBTS: u32 = 2;

/// The answer to a command that writes, and an error if as many replicas as the manager asks for have not
/// acknowledged in time what was written.
pub(super) type Written = (Value, Result<(), StoreError>);

/// One connection to a server, which executes commands in the order in which they are sent.
#[derive(Debug, Clone)]
pub(in crate::store) struct Line {
    pub(super) multiplexed: MultiplexedConnection,
    pub(in crate::store) state: Arc<LineState>,
    /// Whether the server is to serve a slot that is still being moved to it.
    asking: bool,
}

impl Line {
    pub(super) fn new(multiplexed: MultiplexedConnection, state: Arc<LineState>) -> Self {
        Self { multiplexed, state, asking: false }
    }

    /// The same line for one call about a slot that is being moved to its server.
    pub(super) fn asking(self) -> Self {
        Self { asking: true, ..self }
    }

    /// Sends a command and gives its answer.
    pub(in crate::store) async fn call(&self, command: &Cmd) -> Result<Value, StoreError> {
        if self.asking {
            let mut commands = redis::pipe();
            commands.cmd("ASKING").add_command(command.clone());
            let mut answers = self.send(&commands).await?;
            return answers.pop().unwrap_or_else(|| Err(unexpected(&Value::Nil)));
        }
        let answer = self.multiplexed.clone().send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        self.state.take_note(&answer);
        self.state.check_left()?;
        answer.map_err(fault::sending)
    }

    /// Sends a command that writes, and has it acknowledged.
    pub(super) async fn call_replicated(&self, command: Cmd) -> Result<Written, StoreError> {
        let Some(wait) = self.wait() else {
            return Ok((self.call(&command).await?, Ok(())));
        };
        let mut commands = redis::pipe();
        if self.asking {
            commands.cmd("ASKING");
        }
        commands.add_command(command).add_command(wait);
        let mut answers = self.send(&commands).await?;
        let acknowledged = self.acknowledged(answers.pop());
        let answer = answers.pop().unwrap_or_else(|| Err(unexpected(&Value::Nil)))?;
        Ok((answer, acknowledged))
    }

    /// Sends commands that write together, and has them acknowledged. When that takes longer than
    /// `patience`, and twice as long as the last time, the line is doubted; the answers are awaited all
    /// the same. A line that is slow is left for no other one, which would be as slow.
    pub(super) async fn call_each_replicated(
        &self,
        mut commands: Pipeline,
        patience: Duration,
    ) -> Result<Vec<Result<Written, StoreError>>, StoreError> {
        let wait = self.wait();
        let waits = wait.is_some();
        if let Some(wait) = wait {
            commands.add_command(wait);
        }
        let sent = Instant::now();
        let patience = patience.max(*self.state.pace() * 2);
        let mut answers = pin!(self.send(&commands));
        let mut answers = if let Ok(answers) = timeout(patience, answers.as_mut()).await {
            answers?
        } else {
            self.state.doubts.fetch_add(1, Ordering::Relaxed);
            answers.await?
        };
        *self.state.pace() = sent.elapsed();
        let acknowledged = if waits { self.acknowledged(answers.pop()) } else { Ok(()) };
        let missing = acknowledged.err().map(|error| error.to_string());
        let written = |answer: Result<Value, StoreError>| {
            let missing = missing.clone().map(|text| StoreError::Unknown(text.into()));
            Ok((answer?, missing.map_or(Ok(()), Err)))
        };
        Ok(answers.into_iter().map(written).collect())
    }

    /// Sends commands together and gives the answer of each.
    pub(in crate::store) async fn send(
        &self,
        commands: &Pipeline,
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let answers =
            self.multiplexed.clone().send_packed_commands(commands, 0, commands.len()).await;
        self.state.take_note(&answers);
        self.state.check_left()?;
        let answers = answers.map_err(fault::sending)?.into_iter().map(|answer| {
            let answer = answer.extract_error();
            self.state.take_note(&answer);
            answer.map_err(fault::sending)
        });
        Ok(answers.collect())
    }

    /// What the answer to `WAIT` says. However that fails, what was written before is there.
    fn acknowledged(&self, answer: Option<Result<Value, StoreError>>) -> Result<(), StoreError> {
        let wanted = self.replicas();
        let why = match answer {
            Some(Ok(Value::Int(number))) if number >= i64::from(wanted) => return Ok(()),
            Some(Ok(Value::Int(number))) => {
                format!("{number} of {wanted} replicas have acknowledged it in time")
            }
            Some(Err(error)) => error.to_string(),
            other => return Err(unexpected(&other.transpose()?.unwrap_or(Value::Nil))),
        };
        Err(StoreError::Unknown(why.into()))
    }

    /// The channel on which the server sends messages to those who wait, or an empty name if it
    /// sends none. Why not is said once.
    pub(in crate::store) async fn inbox(&self) -> Result<&str, StoreError> {
        let deaf = self.state.deaf.get_or_try_init(|| self.subscribe()).await?;
        let Some(why) = deaf else { return Ok(&self.state.inbox) };
        if !self.state.common.said_deaf.swap(true, Ordering::Relaxed) {
            tracing::warn!("waiters ask again and again, because they get no messages: {why}");
        }
        Ok("")
    }

    /// Subscribes to the inbox. Gives the reason if the server refuses.
    async fn subscribe(&self) -> Result<Option<String>, StoreError> {
        let answer = self.multiplexed.clone().subscribe(&self.state.inbox).await;
        self.state.take_note(&answer);
        match answer {
            Ok(()) => Ok(None),
            Err(error) if error.code().is_some() => Ok(Some(error.to_string())),
            Err(error) => Err(fault::sending(error)),
        }
    }

    /// Whether it has ended or was left; what is sent on it now is not executed, or does not count.
    pub(in crate::store) fn is_broken(&self) -> bool {
        self.state.broken.load(Ordering::Acquire) || self.is_left()
    }

    /// Whether its server is the master no more, because there was a later failover.
    pub(super) fn is_left(&self) -> bool {
        self.state.is_left()
    }

    /// Whether it leads to a server that answers, as far as anybody knows.
    pub(super) fn is_good(&self) -> bool {
        !self.is_broken() && self.state.doubts.load(Ordering::Relaxed) < MAX_DOUBTS
    }

    /// The command that waits for the replicas, if the manager asks for some.
    pub(super) fn wait(&self) -> Option<Cmd> {
        self.state.common.wait()
    }

    /// How many replicas have to acknowledge what is written on it.
    pub(super) fn replicas(&self) -> u32 {
        self.state.common.replicas
    }

    /// The server, as others call it.
    pub(super) fn address(&self) -> &str {
        &self.state.address
    }

    /// What is known of the fence counters and of the epoch of the server, as the scripts expect it.
    pub(in crate::store) fn fence_terms(&self) -> [String; 2] {
        self.state.fences().terms()
    }

    /// Takes note of a fence number, and of the epoch that was told with it.
    pub(in crate::store) fn note_fence(&self, fence: Fence, told: Option<Told>) {
        self.state.fences().note(fence, told);
    }

    /// Has the server tell its epoch again.
    pub(super) fn doubt_epoch(&self) {
        self.state.fences().doubt_epoch();
    }

    /// Whether `script` was not called on it before.
    pub(super) fn is_first_call(&self, script: &'static str) -> bool {
        let mut called = self.state.called.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = called.iter().all(|known| !ptr::eq(*known, script));
        if is_first {
            called.push(script);
        }
        is_first
    }
}

#[derive(Debug)]
pub(in crate::store) struct LineState {
    pub(super) common: Arc<Common>,
    address: String,
    /// The epoch in which the sentinels made its server the master; 0 without sentinels.
    epoch: u64,
    pub(super) broken: AtomicBool,
    /// Answers that have been missing since the last one that came.
    doubts: AtomicU32,
    /// How long the last renewals took to be answered; at first, the last command of the login.
    pace: Mutex<Duration>,
    fences: Mutex<Fences>,
    /// The scripts that were called on it; a list, because there are few.
    called: Mutex<Vec<&'static str>>,
    /// The channel on which the server sends messages to those who wait.
    inbox: String,
    /// Why nothing arrives there, if that is so; unknown until somebody waits.
    deaf: OnceCell<Option<String>>,
}

impl LineState {
    pub(super) fn new(
        common: &Arc<Common>,
        address: String,
        epoch: Epoch,
        protocol: ProtocolVersion,
    ) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let inbox = format!("{}:{number}", token::process_name());
        let resp3 = protocol.supports_resp3();
        let deaf = if resp3 { None } else { Some(Some("the connection speaks RESP2".to_owned())) };
        let (broken, doubts, pace, called) = Default::default();
        Self {
            common: Arc::clone(common),
            address,
            epoch: if let Epoch::Fixed(epoch) = epoch { epoch } else { 0 },
            broken,
            doubts,
            pace,
            fences: Mutex::new(Fences::new(epoch)),
            called,
            inbox,
            deaf: OnceCell::new_with(deaf),
        }
    }

    fn is_left(&self) -> bool {
        self.epoch < self.common.newest_epoch.load(Ordering::Acquire)
    }

    pub(super) fn pace(&self) -> MutexGuard<'_, Duration> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fences(&self) -> MutexGuard<'_, Fences> {
        self.fences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_note<T>(&self, answer: &Result<T, RedisError>) {
        match answer {
            Err(error) if error.is_timeout() => drop(self.doubts.fetch_add(1, Ordering::Relaxed)),
            Err(error) if fault::breaks_connection(error) => {
                self.broken.store(true, Ordering::Release);
            }
            _ => self.doubts.store(0, Ordering::Relaxed),
        }
    }

    /// An answer of a server that is the master no more does not count, whatever it says.
    fn check_left(&self) -> Result<(), StoreError> {
        if self.is_left() {
            let Self { address, .. } = self;
            return Err(StoreError::Disconnected(
                format!("{address} is the master no more").into(),
            ));
        }
        Ok(())
    }
}
