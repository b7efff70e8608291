//! Locks in one Redis server.

mod address;
mod connection;
mod fault;
mod script;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Client, Cmd, Value};

use self::connection::{Connections, Line};
use self::script::Script;
use super::{Acquired, BoxFuture, Claim, Owned, Release, Renewal, Store, StoreError};
use crate::Token;

static LOOK: Script = Script::new(include_str!("redis/lua/look.lua"));
static RENEW: Script = Script::new(include_str!("redis/lua/renew.lua"));
static RELEASE: Script = Script::new(include_str!("redis/lua/release.lua"));

/// The pause before a waiter asks again: so long, and up to so much longer.
const POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(100));

/// Keeps locks in one Redis server, each as a string with an expiry: the token of its holder.
#[derive(Debug)]
pub(crate) struct RedisStore {
    name: String,
    connections: Connections,
    /// Where requests were sent whose answer is not known. A release must not overtake them.
    unanswered: Mutex<BTreeMap<Token, Line>>,
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
        let connections = Connections::new(client, timeout).map_err(|error| error.to_string())?;
        Ok(Self { name, connections, unanswered: Mutex::default() })
    }

    /// Makes sure that a server answers, and that it is one.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        match self.line().await?.call(&redis::cmd("PING")).await? {
            Value::SimpleString(pong) if pong == "PONG" => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    async fn line(&self) -> Result<Line, StoreError> {
        self.connections.here()?.line().await
    }

    /// A panic elsewhere leaves the map usable: each change to it is one call.
    fn unanswered(&self) -> MutexGuard<'_, BTreeMap<Token, Line>> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the lock until it is granted or the time to wait is over.
    async fn wait_for(&self, claim: &Claim) -> Result<Acquired, StoreError> {
        loop {
            let line = self.line().await?;
            let sent = Instant::now();
            if self.set(&line, claim).await? {
                return Ok(Acquired::Granted { sent });
            }
            let found = found(LOOK.call(&line, &claim.key, &[]).await?)?;
            claim.note_answer();
            let left =
                claim.wait_until.map(|until| until.saturating_duration_since(Instant::now()));
            match found {
                Acquired::Busy { expires_in, .. } if left.is_none_or(|left| !left.is_zero()) => {
                    // One millisecond more than the holder has left, since that is rounded.
                    let free_in =
                        expires_in.map_or(Duration::MAX, |ms| ms + Duration::from_millis(1));
                    tokio::time::sleep(pause()?.min(free_in).min(left.unwrap_or(free_in))).await;
                }
                found => return Ok(found),
            }
        }
    }

    /// Takes the lock if its key is free: one command, which gives the key its expiry, too.
    async fn set(&self, line: &Line, claim: &Claim) -> Result<bool, StoreError> {
        let mut command = Cmd::with_capacity(6, 128);
        command.arg("SET").arg(claim.key.as_str()).arg(claim.token.as_bytes()).arg("NX");
        command.arg("PX").arg(millis(claim.ttl));
        self.unanswered().insert(claim.token, line.clone());
        let answer = line.call(&command).await;
        if !answer.as_ref().is_err_and(StoreError::may_have_run) {
            self.unanswered().remove(&claim.token);
        }
        match answer? {
            Value::Okay => Ok(true),
            Value::Nil => Ok(false),
            other => Err(unexpected(&other)),
        }
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
            .map(|(lease, ttl)| (&lease.key, [lease.token.as_bytes(), ttl.as_bytes()]));
        let replies = RENEW.call_each(&line, calls, patience).await?;
        Ok(replies.into_iter().map(|reply| owned(&reply?)).collect())
    }

    async fn release_on(&self, line: &Line, release: &Release) -> Result<Owned, StoreError> {
        let keep = release.keep().map_or_else(String::new, millis);
        let args = [release.token.as_bytes(), keep.as_bytes()];
        owned(&RELEASE.call(line, &release.key, &args).await?)
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
            let before = self.unanswered().remove(&release.token);
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

/// A duration for Redis, which counts in milliseconds: rounded up, and never zero, because an
/// expiry of zero deletes the key.
fn millis(duration: Duration) -> String {
    duration.as_nanos().div_ceil(1_000_000).max(1).to_string()
}

fn pause() -> Result<Duration, StoreError> {
    let random = getrandom::u32().map_err(|error| StoreError::Refused(error.into()))?;
    let (shortest, more) = POLL;
    Ok(shortest + more.mul_f64(f64::from(random) / f64::from(u32::MAX)))
}

/// What `look.lua` says of a key that was not free.
fn found(reply: Value) -> Result<Acquired, StoreError> {
    match reply {
        Value::Nil => Ok(Acquired::Busy { holder: None, expires_in: Some(Duration::ZERO) }),
        Value::Array(found) => match &found[..] {
            [Value::SimpleString(kind)] => Ok(Acquired::NotALock { kind: kind.clone() }),
            [Value::BulkString(holder), Value::Int(ms)] => Ok(Acquired::Busy {
                holder: Some(String::from_utf8_lossy(holder).into()),
                expires_in: u64::try_from(*ms).ok().map(Duration::from_millis),
            }),
            _ => Err(unexpected(&Value::Array(found))),
        },
        other => Err(unexpected(&other)),
    }
}

fn owned(reply: &Value) -> Result<Owned, StoreError> {
    match reply {
        Value::Int(1) => Ok(Owned::Yes),
        Value::Int(0) => Ok(Owned::No),
        other => Err(unexpected(other)),
    }
}

fn unexpected(reply: &Value) -> StoreError {
    StoreError::Unknown(format!("the server answered {reply:?}, as no Redis does").into())
}
