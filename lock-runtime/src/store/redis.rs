//! Locks in Redis: in one server, in the master that sentinels name, or in a cluster.

pub(crate) mod address;
pub(super) mod answer;
pub(super) mod channels;
pub(super) mod check;
mod cluster;
pub(super) mod connection;
mod fault;
mod fences;
pub(super) mod line;
pub(super) mod names;
pub(super) mod requests;
pub(super) mod script;
mod sentinel;
pub(super) mod server;
mod servers;
mod slot;
mod survey;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod waiter;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout;

use self::address::{SentinelAddress, Topology};
use self::answer::{Answer, owned};
use self::cluster::Cluster;
use self::connection::Connections;
use self::line::{Line, Written};
use self::requests::Requests;
use self::script::Script;
use self::sentinel::Sentinel;
use self::server::{Common, Place};
use self::servers::Servers;
use self::waiter::{Queued, Waiter};
use super::{Acquired, BoxFuture, Claim, Owned, Release, Renewal, Store, StoreError};
use crate::Key;

/// How many times a command follows redirections before it is given up.
const MAX_REDIRECTIONS: u32 = 50;

static ACQUIRE: Script = Script::new(concat!(
    include_str!("redis/lua/look.lua"),
    include_str!("redis/lua/grant.lua"),
    include_str!("redis/lua/acquire.lua"),
    include_str!("redis/lua/queue.lua"),
    include_str!("redis/lua/join.lua"),
));
static RENEW: Script =
    Script::new(concat!(include_str!("redis/lua/look.lua"), include_str!("redis/lua/renew.lua"),));
static RELEASE: Script = Script::new(concat!(
    include_str!("redis/lua/look.lua"),
    include_str!("redis/lua/release.lua"),
    include_str!("redis/lua/grant.lua"),
    include_str!("redis/lua/queue.lua"),
    include_str!("redis/lua/hand_over.lua"),
));

/// Keeps locks in Redis, each as a string with an expiry: the token of its holder.
#[derive(Debug)]
pub(crate) struct RedisStore {
    name: String,
    servers: Servers,
    common: Arc<Common>,
    requests: Arc<Requests>,
}

impl RedisStore {
    /// One whose grants and renewals count when so many replicas have acknowledged them.
    pub(crate) fn new(topology: Topology, timeout: Duration, replicas: u32) -> Self {
        #[cfg(feature = "tls")]
        tls::prepare();
        let requests = Arc::<Requests>::default();
        let common = Common::new(timeout, Arc::downgrade(&requests), replicas);
        let one = |place| Servers::One(Arc::new(Connections::new(place, Arc::clone(&common))));
        let (name, servers) = match topology {
            Topology::Server(info) => (address::name(&info), one(Place::Fixed(info))),
            Topology::Sentinel(address) => {
                let SentinelAddress { sentinels, service, .. } = &*address;
                let name = address::names("redis-sentinel", sentinels);
                let name = format!("{name}/{service}");
                (name, one(Place::Sentinel(Sentinel::new(*address, Arc::clone(&common)).into())))
            }
            Topology::Cluster(seeds) => {
                let name = address::names("redis-cluster", &seeds);
                (name, Servers::Cluster(Cluster::new(seeds, Arc::clone(&common))))
            }
        };
        Self { name, servers, common, requests }
    }

    /// Makes sure that all servers answer, that they are such, that they run scripts and have the
    /// replicas. Warns of settings by which they may forget locks.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        for line in self.servers.lines().await? {
            let checked = check::server(&line, &self.name, self.servers.kind()).await;
            checked.map_err(|error| self.servers.located(&line, error))?;
        }
        Ok(())
    }

    /// Where to send a command again that failed on `line`: where a cluster redirects it to. Else
    /// gives the error back.
    async fn elsewhere(
        &self,
        key: &Key,
        line: &Line,
        error: StoreError,
        redirections: &mut u32,
    ) -> Result<Line, StoreError> {
        *redirections += 1;
        match self.servers.redirected(key, line, &error).await? {
            Some(other) if *redirections <= MAX_REDIRECTIONS => Ok(other),
            _ => Err(self.servers.located(line, error)),
        }
    }

    /// Asks for the lock until it is granted or the time to wait is over.
    async fn wait_for(&self, claim: &Claim) -> Result<Acquired, StoreError> {
        let Claim { token, ttl, wait_until, .. } = *claim;
        let trusts_messages = self.servers.messages_count() && self.common.replicas == 0;
        let jitter = token.seed().to_be_bytes()[0];
        let mut waiter = Waiter::new(ttl, wait_until, trusts_messages, Instant::now(), jitter);
        loop {
            let mut line = self.servers.line(&claim.key).await?;
            let pause = waiter.waits(Instant::now()).then(|| waiter.pause());
            let sent = Instant::now();
            let mut redirections = 0;
            let answer = loop {
                match self.ask(&line, claim, pause).await {
                    Ok(answer) => break answer,
                    Err(error) => {
                        line = self.elsewhere(&claim.key, &line, error, &mut redirections).await?;
                    }
                }
            };
            let queued = match answer {
                Answer::Granted(fence, _) => return Ok(Acquired::Granted { sent, fence }),
                Answer::Busy { holder, free_in } => {
                    return Ok(Acquired::Busy { holder, expires_in: free_in });
                }
                Answer::NotALock { kind } => return Ok(Acquired::NotALock { kind }),
                Answer::Queued(queued) => queued,
            };
            claim.note_answer();
            waiter.queued(sent, queued, Instant::now());
            while let Some(message) = self.requests.message(token, waiter.ask_at()).await {
                if let Some((sent, fence)) = waiter.told(message, Instant::now()) {
                    self.requests.end(token);
                    return Ok(Acquired::Granted { sent, fence });
                }
            }
        }
    }

    /// Asks for the lock. Who waits names the pause before the next question.
    async fn ask(
        &self,
        line: &Line,
        claim: &Claim,
        pause: Option<Duration>,
    ) -> Result<Answer, StoreError> {
        let (pause, inbox) = match pause {
            Some(pause) => (millis(pause), line.inbox().await?),
            None => (String::new(), ""),
        };
        let names = self.servers.names(&claim.key);
        let (ttl, [seen, epoch]) = (millis(claim.ttl), line.fence_terms());
        let [ttl, pause, inbox, seen, epoch] =
            [&ttl, &pause, inbox, &seen, &epoch].map(str::as_bytes);
        let args = [claim.token.as_bytes(), ttl, pause, inbox, seen, epoch];
        self.requests.ask(claim.token, line);
        let answer = ACQUIRE.call_replicated(line, &names.all(), &args).await;
        let answer = answer.and_then(|(answer, acknowledged)| {
            let answer = Answer::read(&answer)?;
            if matches!(answer, Answer::Granted(..)) {
                acknowledged?;
            }
            Ok(answer)
        });
        match &answer {
            Ok(Answer::Granted(fence, told)) => line.note_fence(*fence, *told),
            Ok(Answer::Queued(Queued { last_fence, .. })) => line.note_fence(*last_fence, None),
            _ => {}
        }
        match &answer {
            Ok(Answer::Queued(_)) => self.requests.wait(claim.token),
            Err(error) if error.may_have_run() => {}
            _ => drop(self.requests.end(claim.token)),
        }
        answer
    }

    async fn renew_all(
        &self,
        leases: &[Renewal],
    ) -> Result<Vec<Result<Owned, StoreError>>, StoreError> {
        let Some(first) = leases.first() else {
            return self.servers.prepare().await.map(|()| Vec::new());
        };
        let line = self.servers.line(&first.key).await?;
        let answers = renew_each(&line, leases).await?;
        let answers = answers.into_iter().zip(leases).map(async |(answer, lease)| match answer {
            Ok(owned) => Ok(owned),
            // No longer than the others can wait for their answers.
            Err(error) => timeout(lease.patience, self.renew_elsewhere(&line, lease, error))
                .await
                .unwrap_or_else(|_| Err(StoreError::no_answer())),
        });
        Ok(join_all(answers).await)
    }

    /// Renews a lease where a cluster redirects it to, if that is what the error says.
    async fn renew_elsewhere(
        &self,
        line: &Line,
        lease: &Renewal,
        error: StoreError,
    ) -> Result<Owned, StoreError> {
        match self.servers.redirected(&lease.key, line, &error).await? {
            Some(other) => self.renew_on(other, lease).await,
            None => Err(error),
        }
    }

    async fn renew_on(&self, mut line: Line, lease: &Renewal) -> Result<Owned, StoreError> {
        let Renewal { key, token, ttl, .. } = lease;
        let ttl = millis(*ttl);
        let args = [token.as_bytes(), ttl.as_bytes()];
        let mut redirections = 0;
        loop {
            match RENEW.call_replicated(&line, &[key.as_str()], &args).await {
                Ok(written) => return renewed(written),
                Err(error) => line = self.elsewhere(key, &line, error, &mut redirections).await?,
            }
        }
    }

    async fn release_on(&self, mut line: Line, release: &Release) -> Result<Owned, StoreError> {
        let names = self.servers.names(&release.key);
        let mut redirections = 0;
        loop {
            let keep = release.keep().map_or_else(String::new, millis);
            let [seen, epoch] = line.fence_terms();
            let args =
                [release.token.as_bytes(), keep.as_bytes(), seen.as_bytes(), epoch.as_bytes()];
            match RELEASE.call(&line, &names.all(), &args).await {
                Ok(reply) => return owned(&reply),
                Err(error) => {
                    line = self.elsewhere(&release.key, &line, error, &mut redirections).await?;
                }
            }
        }
    }
}

impl Store for RedisStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn shard(&self, key: &Key) -> u64 {
        self.servers.shard(key)
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Acquired, StoreError>> {
        Box::pin(self.wait_for(claim))
    }

    fn renew<'a>(&'a self, leases: &'a [Renewal]) -> BoxFuture<'a, Vec<Result<Owned, StoreError>>> {
        Box::pin(async {
            self.renew_all(leases).await.unwrap_or_else(|error| {
                let text = error.to_string();
                leases.iter().map(|_| Err(StoreError::Unknown(text.clone().into()))).collect()
            })
        })
    }

    fn release<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Owned, StoreError>> {
        Box::pin(async {
            let before = self.requests.end(release.token);
            let line = || self.servers.line(&release.key);
            release_behind(before, line, |line| self.release_on(line, release)).await
        })
    }
}

/// Releases on the line `before`, where the lock was asked for, or else on another one. Sent where the
/// request was sent, the release is executed behind it, even if both are late. Elsewhere it may be too
/// early, but when the first line does not answer, that is what is left, and the lock's own expiry
/// behind it.
pub(super) async fn release_behind<L, R>(
    before: Option<Line>,
    line: impl Fn() -> L,
    release: impl Fn(Line) -> R,
) -> Result<Owned, StoreError>
where
    L: Future<Output = Result<Line, StoreError>>,
    R: Future<Output = Result<Owned, StoreError>>,
{
    if let Some(line) = before.filter(|line| !line.is_broken())
        && let Ok(owned) = release(line).await
    {
        return Ok(owned);
    }
    match release(line().await?).await {
        // The line may have been dead for long. The answer to the second attempt does not tell whether
        // the first one has released the lock.
        Err(StoreError::Disconnected(_)) => release(line().await?).await.map(|_| Owned::Yes),
        answer => answer,
    }
}

/// Renews leases on one server, and answers for each.
pub(super) async fn renew_each(
    line: &Line,
    leases: &[Renewal],
) -> Result<Vec<Result<Owned, StoreError>>, StoreError> {
    let patience = leases.iter().map(|lease| lease.patience).min().unwrap_or(Duration::MAX);
    let ttls: Vec<String> = leases.iter().map(|lease| millis(lease.ttl)).collect();
    let calls = leases
        .iter()
        .zip(&ttls)
        .map(|(lease, ttl)| (lease.key.as_str(), [lease.token.as_bytes(), ttl.as_bytes()]));
    let answers = RENEW.call_each_replicated(line, calls, patience).await?;
    Ok(answers.into_iter().map(|written| renewed(written?)).collect())
}

/// What the answer to a renewal means. What is lost is so without any acknowledgement.
fn renewed((reply, acknowledged): Written) -> Result<Owned, StoreError> {
    let owned = owned(&reply)?;
    if owned == Owned::Yes {
        acknowledged?;
    }
    Ok(owned)
}

/// A duration for Redis, which counts in milliseconds: rounded up, and never zero, because an
/// expiry of zero deletes the key.
pub(super) fn millis(duration: Duration) -> String {
    duration.as_nanos().div_ceil(1_000_000).max(1).to_string()
}
