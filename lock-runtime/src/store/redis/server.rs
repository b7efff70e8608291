//! How to connect to a server.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ProtocolVersion, PushInfo, PushKind,
    RedisError, Value,
};

use super::answer::Told;
use super::check;
use super::fault::{self, ConnectError};
use super::fences::Epoch;
use super::line::{Line, LineState};
use super::requests::Requests;
use super::sentinel::Sentinel;
use crate::store::StoreError;
use crate::token;

/// What the connections of one manager have in common.
#[derive(Debug)]
pub(in crate::store) struct Common {
    pub(super) timeout: Duration,
    /// For whom messages are.
    pub(super) requests: Weak<Requests>,
    /// How many replicas have to acknowledge grants and renewals.
    pub(super) replicas: u32,
    /// Whether it was said that waiters get no messages.
    pub(super) said_deaf: AtomicBool,
    /// The greatest epoch of a master that the sentinels have told.
    pub(super) newest_epoch: AtomicU64,
}

impl Common {
    pub(in crate::store) fn new(
        timeout: Duration,
        requests: Weak<Requests>,
        replicas: u32,
    ) -> Arc<Self> {
        let (said_deaf, newest_epoch) = Default::default();
        Arc::new(Self { timeout, requests, replicas, said_deaf, newest_epoch })
    }

    /// Takes note that the sentinels name a master of this epoch. Lines to masters of earlier ones are left,
    /// and those ask again who wait there. Tells whether none of a later epoch is known.
    pub(super) fn note_epoch(&self, epoch: u64) -> bool {
        let newest = self.newest_epoch.fetch_max(epoch, Ordering::AcqRel);
        if newest < epoch {
            tracing::info!(epoch, "the sentinels name a master of a later epoch");
            self.requests.upgrade().unwrap_or_default().disconnected(Line::is_left);
        }
        newest <= epoch
    }

    /// The command that waits for the replicas: no longer than half a timeout, so that its own answer
    /// comes in time.
    pub(super) fn wait(&self) -> Option<Cmd> {
        let limit = self.timeout.as_millis() / 2;
        let wait = || redis::cmd("WAIT").arg(self.replicas).arg(limit.to_string()).take();
        (self.replicas > 0).then(wait)
    }
}

/// A server, and how to connect to it.
pub(super) struct Server {
    place: Place,
    common: Arc<Common>,
    /// Whether to speak RESP3: cleared when the server turns out not to know it.
    resp3: AtomicBool,
}

/// Where it is.
#[derive(Debug)]
pub(in crate::store) enum Place {
    /// Always there.
    Fixed(Box<ConnectionInfo>),
    /// There, as one of a cluster.
    OfCluster(Box<ConnectionInfo>),
    /// Where the sentinels say.
    Sentinel(Box<Sentinel>),
}

/// Without the settings, which include the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("common", &self.common).finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(place: Place, common: Arc<Common>) -> Self {
        let server = Self { place, common, resp3: AtomicBool::new(false) };
        let resp3 = server.settings().redis_settings().protocol().supports_resp3();
        server.resp3.store(resp3, Ordering::Relaxed);
        server
    }

    pub(super) fn sentinel(&self) -> Option<&Sentinel> {
        match &self.place {
            Place::Fixed(_) | Place::OfCluster(_) => None,
            Place::Sentinel(sentinel) => Some(sentinel),
        }
    }

    fn settings(&self) -> &ConnectionInfo {
        match &self.place {
            Place::Fixed(info) | Place::OfCluster(info) => info,
            Place::Sentinel(sentinel) => sentinel.master_settings(),
        }
    }

    pub(super) async fn connect(&self) -> Result<Line, ConnectError> {
        let (info, epoch) = match &self.place {
            Place::Fixed(info) => ((**info).clone(), Epoch::Fixed(0)),
            Place::OfCluster(info) => ((**info).clone(), Epoch::Told(Told::default())),
            Place::Sentinel(sentinel) => {
                let (info, epoch) = sentinel.master().await?;
                (info, Epoch::Fixed(epoch))
            }
        };
        let line = self.connect_to(&info, epoch).await.map_err(ConnectError::Server)?;
        if self.sentinel().is_some() {
            check_role(&line).await?;
        }
        Ok(line)
    }

    async fn connect_to(&self, info: &ConnectionInfo, epoch: Epoch) -> Result<Line, RedisError> {
        if self.resp3.load(Ordering::Relaxed) {
            match self.connect_by(ProtocolVersion::RESP3, info, epoch).await {
                Err(error) if fault::is_resp3_unknown(&error) => {
                    tracing::info!("the server does not know RESP3; RESP2 is used");
                    self.resp3.store(false, Ordering::Relaxed);
                }
                done => return done,
            }
        }
        self.connect_by(ProtocolVersion::RESP2, info, epoch).await
    }

    /// What to say of a failed attempt. Some servers quote the command that they do not like, and
    /// it may be the one with the password.
    pub(super) fn failure(&self, error: ConnectError) -> StoreError {
        let secret = self.settings().redis_settings().password();
        match secret.filter(|secret| !secret.is_empty() && error.to_string().contains(*secret)) {
            Some(_) => StoreError::Refused("the server does not accept the login".into()),
            None => fault::connecting(error),
        }
    }

    async fn connect_by(
        &self,
        protocol: ProtocolVersion,
        info: &ConnectionInfo,
        epoch: Epoch,
    ) -> Result<Line, RedisError> {
        let Common { timeout, ref requests, .. } = *self.common;
        let state = LineState::new(&self.common, info.addr().to_string(), epoch, protocol);
        let state = Arc::new(state);
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        if protocol.supports_resp3() {
            let (state, requests) = (Arc::clone(&state), Weak::clone(requests));
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
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let redis = info.redis_settings().clone().set_protocol(protocol);
        let redis = redis.set_lib_name("lock-runtime", env!("CARGO_PKG_VERSION"));
        let client = Client::open(info.clone().set_tcp_settings(tcp).set_redis_settings(redis))?;
        let multiplexed = client.get_multiplexed_async_connection_with_config(&config).await?;
        let name = redis::cmd("CLIENT").arg("SETNAME").arg(token::process_name()).take();
        // Only for people who look at `CLIENT LIST`, so it does not matter if it is refused.
        let sent = Instant::now();
        let _ = multiplexed.clone().send_packed_command(&name).await;
        *state.pace() = sent.elapsed();
        Ok(Line::new(multiplexed, state))
    }
}

/// Makes sure that what the sentinels call a master is one. Who may not ask finds out when writing.
async fn check_role(line: &Line) -> Result<(), ConnectError> {
    let question = redis::cmd("INFO").arg("replication").take();
    let answer = line.multiplexed.clone().send_packed_command(&question).await;
    match answer.and_then(Value::extract_error) {
        Ok(info) if check::info(&info, "role").is_some_and(|role| role != "master") => {
            Err(ConnectError::NoMaster(format!("{} is no master yet", line.address())))
        }
        Err(error) if error.code().is_none() => Err(ConnectError::Server(error)),
        _ => Ok(()),
    }
}
