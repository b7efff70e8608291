//! Locks in one Redis server.

mod connection;
mod fault;
mod script;

use std::time::{Duration, Instant};

use redis::{Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, Value};

use self::connection::{Connection, Connections};
use self::script::Script;
use super::{Acquired, BoxFuture, Claim, Owned, Release, Renewal, Store, StoreError};

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
}

impl RedisStore {
    /// The client for a URL, or what is wrong with it.
    pub(crate) fn client(url: &str) -> Result<Client, String> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let known = ["redis", "valkey", "redis+unix", "valkey+unix", "unix"];
        match scheme {
            "rediss" | "valkeys" if !cfg!(feature = "tls") => {
                return Err(format!("{scheme}:// needs the feature `tls` of lock-runtime"));
            }
            "rediss" | "valkeys" => {}
            scheme if known.contains(&scheme) => {}
            // The rest of the text is not quoted: it may contain a password.
            "" => {
                return Err("the URL has no scheme; write it as in redis://localhost:6379/0".into());
            }
            scheme => {
                return Err(format!(
                    "{scheme}:// is no kind of URL known here; use redis://, rediss://, redis+unix:// or memory://"
                ));
            }
        }
        let invalid = |error: redis::RedisError| {
            let example = "redis://user:password@host:6379/0";
            let text = error.to_string();
            let problem = text.split(" - ").next().unwrap_or_default();
            format!("the {scheme}:// URL cannot be used ({problem}); write it as in {example}")
        };
        let info = url.into_connection_info().map_err(invalid)?;
        let settings = info.redis_settings().clone();
        // Disconnects are noticed at once with RESP3, so it is used unless the URL says otherwise.
        let chosen = url.split_once('?').is_some_and(|(_, options)| options.contains("protocol="));
        let settings =
            if chosen { settings } else { settings.set_protocol(redis::ProtocolVersion::RESP3) };
        Client::open(info.set_redis_settings(settings)).map_err(invalid)
    }

    pub(crate) fn new(client: &Client, timeout: Duration) -> Result<Self, String> {
        let name = name(client.get_connection_info());
        let connections = Connections::new(client, timeout).map_err(|error| error.to_string())?;
        Ok(Self { name, connections })
    }

    /// Makes sure that a server answers, and that it is one.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        match self.connections.here()?.call(&redis::cmd("PING")).await? {
            Value::SimpleString(pong) if pong == "PONG" => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks for the lock until it is granted or the time to wait is over.
    async fn wait_for(&self, claim: &Claim) -> Result<Acquired, StoreError> {
        loop {
            let connection = self.connections.here()?;
            let sent = Instant::now();
            if set(&connection, claim).await? {
                return Ok(Acquired::Granted { sent });
            }
            let found = found(LOOK.call(&connection, &claim.key, &[]).await?)?;
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

    async fn renew_batch(
        &self,
        leases: &[Renewal],
    ) -> Result<Vec<Result<Owned, StoreError>>, StoreError> {
        let ttls: Vec<String> = leases.iter().map(|lease| millis(lease.ttl)).collect();
        let calls = leases
            .iter()
            .zip(&ttls)
            .map(|(lease, ttl)| (&lease.key, [lease.token.as_bytes(), ttl.as_bytes()]));
        let patience = leases.iter().map(|lease| lease.patience).min().unwrap_or_default();
        let replies = RENEW.call_each(&*self.connections.here()?, calls, patience).await?;
        Ok(replies.into_iter().map(|reply| owned(&reply?)).collect())
    }

    async fn release_on(
        &self,
        connection: &Connection,
        release: &Release,
    ) -> Result<Owned, StoreError> {
        let keep = release.keep.map_or_else(String::new, millis);
        let args = [release.token.as_bytes(), keep.as_bytes()];
        owned(&RELEASE.call(connection, &release.key, &args).await?)
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
            self.renew_batch(leases).await.unwrap_or_else(|error| {
                let text = error.to_string();
                leases.iter().map(|_| Err(StoreError::Unknown(text.clone().into()))).collect()
            })
        })
    }

    fn release<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Owned, StoreError>> {
        Box::pin(async {
            // Commands of one connection are executed in their order, so on the connection of the
            // request the release cannot overtake it. On another it might, but when the first one
            // does not answer, this is what is left, and the lock's own expiry behind it.
            if let Some(connection) = release.after.and_then(|runtime| self.connections.of(runtime))
                && connection.is_open()
                && let Ok(owned) = self.release_on(&connection, release).await
            {
                return Ok(owned);
            }
            self.release_on(&*self.connections.here()?, release).await
        })
    }
}

/// The address for errors and logs: without user, password and options.
fn name(info: &ConnectionInfo) -> String {
    let database = info.redis_settings().db();
    match info.addr() {
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{host}:{port}/{database}"),
        ConnectionAddr::Unix(path) if database == 0 => format!("redis+unix://{}", path.display()),
        ConnectionAddr::Unix(path) => format!("redis+unix://{}?db={database}", path.display()),
        other => format!("redis://{other}/{database}"),
    }
}

/// A duration for Redis, which counts in milliseconds: rounded up, and never zero, because an
/// expiry of zero deletes the key.
fn millis(duration: Duration) -> String {
    duration.as_micros().div_ceil(1000).max(1).to_string()
}

fn pause() -> Result<Duration, StoreError> {
    let random = getrandom::u32().map_err(|error| StoreError::Refused(error.into()))?;
    let (shortest, more) = POLL;
    Ok(shortest + more.mul_f64(f64::from(random) / f64::from(u32::MAX)))
}

/// Takes the lock if its key is free: one command, which gives the key its expiry, too.
async fn set(connection: &Connection, claim: &Claim) -> Result<bool, StoreError> {
    let mut command = Cmd::with_capacity(6, 128);
    command.arg("SET").arg(claim.key.as_str()).arg(claim.token.as_bytes()).arg("NX");
    command.arg("PX").arg(millis(claim.ttl));
    match connection.call(&command).await? {
        Value::Okay => Ok(true),
        Value::Nil => Ok(false),
        other => Err(unexpected(&other)),
    }
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
