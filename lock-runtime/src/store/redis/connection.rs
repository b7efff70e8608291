//! Connections to one server: one for each runtime that uses it, replaced when it is dead.

use std::fmt;
use std::pin::pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisError,
    Value,
};
use tokio::runtime;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::fault;
use super::requests::Requests;
use crate::store::{StoreError, current_runtime};
use crate::{Fence, token};

/// Answers that may be missing in a row before a connection is replaced. A connection into a black
/// hole shows nothing else, for hours.
const MAX_DOUBTS: u32 = 2;

/// The connections of one manager.
#[derive(Debug)]
pub(super) struct Connections {
    server: Arc<Server>,
    /// A list, because there are few.
    by_runtime: Mutex<Vec<(runtime::Id, Arc<Connection>)>>,
}

impl Connections {
    /// Their messages go to `requests`.
    pub(super) fn new(
        client: &Client,
        timeout: Duration,
        requests: Weak<Requests>,
    ) -> Result<Self, RedisError> {
        let info = client.get_connection_info();
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let redis =
            info.redis_settings().clone().set_lib_name("lock-runtime", env!("CARGO_PKG_VERSION"));
        let client = Client::open(info.clone().set_tcp_settings(tcp).set_redis_settings(redis))?;
        let resp3 = AtomicBool::new(
            client.get_connection_info().redis_settings().protocol().supports_resp3(),
        );
        let said_deaf = AtomicBool::new(false);
        Ok(Self {
            server: Arc::new(Server { client, timeout, requests, resp3, said_deaf }),
            by_runtime: Mutex::default(),
        })
    }

    /// The connection of the runtime this is called on.
    pub(super) fn here(&self) -> Result<Arc<Connection>, StoreError> {
        let runtime = current_runtime()?;
        let mut by_runtime = self.by_runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let found = by_runtime.iter().find(|(id, _)| *id == runtime.id());
        if let Some((_, connection)) = found.filter(|(_, connection)| !connection.has_ended()) {
            return Ok(Arc::clone(connection));
        }
        by_runtime.retain(|(_, connection)| !connection.has_ended());
        let connection = Arc::new(Connection::new(Arc::clone(&self.server), &runtime));
        by_runtime.push((runtime.id(), Arc::clone(&connection)));
        Ok(connection)
    }
}

/// How to connect.
struct Server {
    client: Client,
    timeout: Duration,
    requests: Weak<Requests>,
    /// Whether to speak RESP3: cleared when the server turns out not to know it.
    resp3: AtomicBool,
    /// Whether it was said that waiters get no messages.
    said_deaf: AtomicBool,
}

/// Without the client, which knows the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Server {
    async fn connect(&self) -> Result<Line, RedisError> {
        if self.resp3.load(Ordering::Relaxed) {
            match self.connect_by(ProtocolVersion::RESP3).await {
                Err(error) if fault::is_resp3_unknown(&error) => {
                    tracing::info!("the server does not know RESP3; RESP2 is used");
                    self.resp3.store(false, Ordering::Relaxed);
                }
                done => return done,
            }
        }
        self.connect_by(ProtocolVersion::RESP2).await
    }

    /// What to say of a failed attempt. Some servers quote the command that they do not like, and
    /// it may be the one with the password.
    fn failure(&self, error: RedisError) -> StoreError {
        let secret = self.client.get_connection_info().redis_settings().password();
        match secret.filter(|secret| !secret.is_empty() && error.to_string().contains(*secret)) {
            Some(_) => StoreError::Refused("the server does not accept the login".into()),
            None => fault::connecting(error),
        }
    }

    async fn connect_by(&self, protocol: ProtocolVersion) -> Result<Line, RedisError> {
        let state = Arc::new(LineState::new(protocol));
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        if protocol.supports_resp3() {
            let (state, requests) = (Arc::clone(&state), Weak::clone(&self.requests));
            config = config.set_push_sender(move |push: PushInfo| {
                let requests = requests.upgrade().unwrap_or_default();
                if push.kind == PushKind::Disconnection {
                    state.broken.store(true, Ordering::Release);
                    requests.disconnected(|line| Arc::ptr_eq(&line.state, &state));
                } else {
                    requests.receive(&push);
                }
                Ok::<(), redis::aio::SendError>(())
            });
        }
        let info = self.client.get_connection_info();
        let redis = info.redis_settings().clone().set_protocol(protocol);
        let client = Client::open(info.clone().set_redis_settings(redis))?;
        let multiplexed = client.get_multiplexed_async_connection_with_config(&config).await?;
        let name = redis::cmd("CLIENT").arg("SETNAME").arg(token::process_name()).take();
        // Only for people who look at `CLIENT LIST`, so it does not matter if it is refused.
        let _ = multiplexed.clone().send_packed_command(&name).await;
        Ok(Line { multiplexed, state })
    }
}

/// The connection of one runtime. A broken line is replaced when it is needed next.
#[derive(Debug)]
pub(super) struct Connection {
    server: Arc<Server>,
    line: Mutex<Option<Line>>,
    /// How many attempts to connect were begun.
    attempts: AtomicU32,
    /// Held while connecting: which attempt failed last, and how.
    failure: tokio::sync::Mutex<Option<(u32, RedisError)>>,
    runtime_ended: Arc<AtomicBool>,
    runtime_watch: AbortHandle,
}

impl Connection {
    fn new(server: Arc<Server>, runtime: &runtime::Handle) -> Self {
        /// Dropped when the runtime ends, which takes the driver of the connection with it.
        struct End(Arc<AtomicBool>);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }

        let runtime_ended = Arc::new(AtomicBool::new(false));
        let end = End(Arc::clone(&runtime_ended));
        let watch = runtime.spawn(async move {
            let _end = end;
            std::future::pending::<()>().await;
        });
        Self {
            server,
            line: Mutex::default(),
            attempts: AtomicU32::new(0),
            failure: tokio::sync::Mutex::default(),
            runtime_ended,
            runtime_watch: watch.abort_handle(),
        }
    }

    /// Whether its runtime has ended, and the connection with it.
    fn has_ended(&self) -> bool {
        self.runtime_ended.load(Ordering::Acquire)
    }

    /// A line that works, as far as anybody knows.
    pub(super) async fn line(&self) -> Result<Line, StoreError> {
        if let Some(line) = self.healthy_line() {
            return Ok(line);
        }
        let begun = self.attempts.load(Ordering::Relaxed);
        let mut failure = self.failure.lock().await;
        if let Some(line) = self.healthy_line() {
            return Ok(line);
        }
        // An attempt that was begun and failed while this call waited for its turn has the answer
        // for this call, too: a crowd does not wait for one timeout after the other.
        if let Some((attempt, error)) = &*failure
            && *attempt > begun
        {
            return Err(self.server.failure(error.clone()));
        }
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        match self.server.connect().await {
            Ok(line) => {
                *self.line.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
                Ok(line)
            }
            Err(error) => {
                *failure = Some((attempt, error.clone()));
                Err(self.server.failure(error))
            }
        }
    }

    /// The channel on which the server sends messages to those who wait, or an empty name if it
    /// sends none. Why not is said once.
    pub(super) async fn inbox<'a>(&self, line: &'a Line) -> Result<&'a str, StoreError> {
        let deaf = line.state.deaf.get_or_try_init(|| line.subscribe()).await?;
        let Some(why) = deaf else { return Ok(&line.state.inbox) };
        if !self.server.said_deaf.swap(true, Ordering::Relaxed) {
            tracing::warn!("waiters ask again and again, because they get no messages: {why}");
        }
        Ok("")
    }

    fn healthy_line(&self) -> Option<Line> {
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.as_ref().filter(|line| line.state.is_good()).cloned()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.runtime_watch.abort();
    }
}

/// One connection to the server, which executes commands in the order in which they are sent.
#[derive(Debug, Clone)]
pub(super) struct Line {
    multiplexed: MultiplexedConnection,
    state: Arc<LineState>,
}

impl Line {
    /// Sends a command and gives its answer.
    pub(super) async fn call(&self, command: &Cmd) -> Result<Value, StoreError> {
        let answer = self.multiplexed.clone().send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        self.state.take_note(&answer);
        answer.map_err(fault::sending)
    }

    /// Sends commands together and gives the answer of each. When that takes longer than
    /// `patience`, the line is doubted; the answers are awaited all the same.
    pub(super) async fn call_each(
        &self,
        commands: &Pipeline,
        patience: Duration,
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let mut multiplexed = self.multiplexed.clone();
        let mut answers = pin!(multiplexed.send_packed_commands(commands, 0, commands.len()));
        let answers = if let Ok(answers) = timeout(patience, answers.as_mut()).await {
            answers
        } else {
            self.state.doubts.fetch_add(1, Ordering::Relaxed);
            answers.await
        };
        self.state.take_note(&answers);
        let answers = answers.map_err(fault::sending)?;
        let answers = answers.into_iter().map(Value::extract_error);
        Ok(answers.map(|answer| answer.map_err(fault::sending)).collect())
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

    /// Whether it has ended; what is sent on it now is not executed.
    pub(super) fn is_broken(&self) -> bool {
        self.state.broken.load(Ordering::Acquire)
    }

    /// The greatest fence number that was seen on it: 0 on a new one, which may lead to a server that
    /// has lost some.
    pub(super) fn last_fence(&self) -> u64 {
        self.state.last_fence.load(Ordering::Relaxed)
    }

    pub(super) fn note_fence(&self, fence: Fence) {
        self.state.last_fence.fetch_max(fence.get(), Ordering::Relaxed);
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
struct LineState {
    broken: AtomicBool,
    /// Answers that have been missing since the last one that came.
    doubts: AtomicU32,
    last_fence: AtomicU64,
    /// The scripts that were called on it; a list, because there are few.
    called: Mutex<Vec<&'static str>>,
    /// The channel on which the server sends messages to those who wait.
    inbox: String,
    /// Why nothing arrives there, if that is so; unknown until somebody waits.
    deaf: OnceCell<Option<String>>,
}

impl LineState {
    fn new(protocol: ProtocolVersion) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let inbox = format!("{}:{number}", token::process_name());
        let resp3 = protocol.supports_resp3();
        let deaf = if resp3 { None } else { Some(Some("the connection speaks RESP2".to_owned())) };
        let (broken, doubts, last_fence, called) = Default::default();
        Self { broken, doubts, last_fence, called, inbox, deaf: OnceCell::new_with(deaf) }
    }

    fn is_good(&self) -> bool {
        !self.broken.load(Ordering::Acquire) && self.doubts.load(Ordering::Relaxed) < MAX_DOUBTS
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
}
