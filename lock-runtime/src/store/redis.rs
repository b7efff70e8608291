//! Locks in one Redis server.

mod address;
mod answer;
mod connection;
mod fault;
mod names;
mod requests;
mod script;
mod waiter;

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Client, Value};

use self::answer::{Answer, owned, unexpected};
use self::connection::{Connections, Line};
use self::names::Names;
use self::requests::Requests;
use self::script::Script;
use self::waiter::{Queued, Waiter};
use super::{Acquired, BoxFuture, Claim, Owned, Release, Renewal, Store, StoreError};

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

/// Keeps locks in one Redis server, each as a string with an expiry: the token of its holder.
#[derive(Debug)]
pub(crate) struct RedisStore {
    name: String,
    connections: Connections,
    requests: Arc<Requests>,
}

impl RedisStore {
    /// The client for a URL, or what is wrong with the URL.
    pub(crate) fn client(url: &str) -> Result<Client, String> {
        address::client(url)
    }

    pub(crate) fn new(client: &Client, timeout: Duration) -> Result<Self, String> {
        #[cfg(feature = "tls")]
        address::prepare_tls();
        let name = address::name(client.get_connection_info());
        let requests = Arc::<Requests>::default();
        let connections = Connections::new(client, timeout, Arc::downgrade(&requests))
            .map_err(|error| error.to_string())?;
        Ok(Self { name, connections, requests })
    }

    /// Makes sure that a server answers, that it is one, and that it runs scripts. Warns of settings
    /// by which it may forget locks.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let line = self.line().await?;
        let mut questions = redis::pipe();
        questions.cmd("PING").cmd("EVAL").arg("return 1").arg(0).cmd("INFO").arg("memory");
        let answers = line.call_each(&questions, Duration::MAX).await?;
        let Ok([pong, script, memory]) = <[_; 3]>::try_from(answers) else {
            return Err(unexpected(&Value::Nil));
        };
        match pong? {
            Value::SimpleString(pong) if pong == "PONG" => {}
            other => return Err(unexpected(&other)),
        }
        script?;
        // Who may not ask is not told.
        if let Ok(memory) = memory
            && let Some(policy) = eviction(&memory)
        {
            let store = &*self.name;
            tracing::warn!(
                store,
                policy,
                "the server may evict locks when its memory is full; set `maxmemory-policy noeviction`"
            );
        }
        Ok(())
    }

    async fn line(&self) -> Result<Line, StoreError> {
        self.connections.here()?.line().await
    }

    /// Asks for the lock until it is granted or the time to wait is over.
    async fn wait_for(&self, claim: &Claim) -> Result<Acquired, StoreError> {
        let Claim { token, ttl, wait_until, .. } = *claim;
        let connection = self.connections.here()?;
        let mut waiter =
            Waiter::new(ttl, wait_until, Instant::now(), token.seed().to_be_bytes()[0]);
        loop {
            let line = connection.line().await?;
            let place = if waiter.waits(Instant::now()) {
                Some((waiter.pause(), connection.inbox(&line).await?))
            } else {
                None
            };
            let sent = Instant::now();
            let queued = match self.ask(&line, claim, place).await? {
                Answer::Granted(fence) => return Ok(Acquired::Granted { sent, fence }),
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

    /// Asks for the lock. Who waits names the pause before the next question, and the inbox.
    async fn ask(
        &self,
        line: &Line,
        claim: &Claim,
        place: Option<(Duration, &str)>,
    ) -> Result<Answer, StoreError> {
        let (pause, inbox) =
            place.map_or_else(Default::default, |(pause, inbox)| (millis(pause), inbox));
        let (ttl, seen) = (millis(claim.ttl), line.last_fence().to_string());
        let [ttl, pause, inbox, seen] = [&ttl, &pause, inbox, &seen].map(str::as_bytes);
        let args = [claim.token.as_bytes(), ttl, pause, inbox, seen];
        self.requests.ask(claim.token, line);
        let answer = ACQUIRE.call(line, &Names::of(&claim.key).all(), &args).await;
        let answer = answer.and_then(|answer| Answer::read(&answer));
        if let Ok(Answer::Granted(fence) | Answer::Queued(Queued { last_fence: fence, .. })) =
            &answer
        {
            line.note_fence(*fence);
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
        let line = self.line().await?;
        let Some(patience) = leases.iter().map(|lease| lease.patience).min() else {
            return Ok(Vec::new());
        };
        let ttls: Vec<String> = leases.iter().map(|lease| millis(lease.ttl)).collect();
        let calls = leases
            .iter()
            .zip(&ttls)
            .map(|(lease, ttl)| (lease.key.as_str(), [lease.token.as_bytes(), ttl.as_bytes()]));
        let replies = RENEW.call_each(&line, calls, patience).await?;
        Ok(replies.into_iter().map(|reply| owned(&reply?)).collect())
    }

    async fn release_on(&self, line: &Line, release: &Release) -> Result<Owned, StoreError> {
        let keep = release.keep().map_or_else(String::new, millis);
        let seen = line.last_fence().to_string();
        let args = [release.token.as_bytes(), keep.as_bytes(), seen.as_bytes()];
        owned(&RELEASE.call(line, &Names::of(&release.key).all(), &args).await?)
    }
}

impl Store for RedisStore {
    fn name(&self) -> &str {
        &self.name
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
            // Sent where the request was sent, the release is executed behind it, even if both
            // are late. Elsewhere it may be too early, but when the first line does not answer,
            // that is what is left, and the lock's own expiry behind it.
            let before = self.requests.end(release.token);
            if let Some(line) = before.filter(|line| !line.is_broken())
                && let Ok(owned) = self.release_on(&line, release).await
            {
                return Ok(owned);
            }
            match self.release_on(&self.line().await?, release).await {
                // The line may have been dead for long. The answer to the second attempt does not
                // tell whether the first one has released the lock.
                Err(StoreError::Disconnected(_)) => {
                    self.release_on(&self.line().await?, release).await.map(|_| Owned::Yes)
                }
                answer => answer,
            }
        })
    }
}

/// The policy by which a server with this `INFO memory` removes keys, if it does.
fn eviction(info: &Value) -> Option<String> {
    let info: String = redis::from_redis_value_ref(info).ok()?;
    let field = |name| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let unlimited = field("maxmemory")? == "0";
    let policy = field("maxmemory_policy")?;
    (!unlimited && policy != "noeviction").then(|| policy.to_owned())
}

/// A duration for Redis, which counts in milliseconds: rounded up, and never zero, because an
/// expiry of zero deletes the key.
fn millis(duration: Duration) -> String {
    duration.as_nanos().div_ceil(1_000_000).max(1).to_string()
}
