//! [`Sentinels`]: the master of a service, as the sentinels report it, and the end of its
//! predecessors: connections to a demoted master become stale.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisError,
    Value, from_redis_value,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::store::redis::client::connector::{Resolver, Resolving};
use crate::store::redis::client::error::{self, ClientError};
use crate::store::redis::client::fan_out;
use crate::store::redis::client::url::{self, SentinelSettings};

/// The channel on which a sentinel announces a new master.
const SWITCH: &str = "+switch-master";
/// The delay before reconnecting to a sentinel.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// How often an idle connection to a sentinel is checked.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// The sentinels of a service.
pub(crate) struct Sentinels {
    settings: SentinelSettings,
    timeout: Duration,
    /// The epoch of the newest master that a sentinel has reported.
    newest_epoch: watch::Sender<u64>,
}

/// The master that one sentinel reports.
#[derive(Debug)]
struct Master {
    host: String,
    port: u16,
    /// The number of the failover that made it the master.
    epoch: u64,
}

impl Sentinels {
    pub(super) fn new(
        settings: SentinelSettings,
        timeout: Duration,
        newest_epoch: watch::Sender<u64>,
    ) -> Self {
        Self { settings, timeout, newest_epoch }
    }

    /// Returns how to connect to the master, and its epoch.
    async fn master(&self) -> Result<(ConnectionInfo, u64), ClientError> {
        let all = self.settings.sentinels.len();
        for enough in [all / 2 + 1, all] {
            let known = *self.newest_epoch.borrow();
            let (Master { host, port, epoch }, replies) = self.query(enough).await?;
            // A minority may have missed the last failover; all sentinels together may have been
            // set up anew.
            let is_current = if epoch >= known {
                self.record_epoch(epoch)
            } else {
                replies == all && self.reset_epoch(known, epoch)
            };
            if is_current {
                return Ok((url::at(&self.settings.master, &host, port), epoch));
            }
        }
        Err(ClientError::not_executed("the sentinels that reply know only an older master"))
    }

    /// Returns the newest master among the first `enough` replies, and the number of replies.
    async fn query(&self, enough: usize) -> Result<(Master, usize), ClientError> {
        let SentinelSettings { sentinels, service, .. } = &self.settings;
        let query = |sentinel: &ConnectionInfo| {
            let (sentinel, service, timeout) = (sentinel.clone(), service.clone(), self.timeout);
            async move {
                let connection = connect(&sentinel, AsyncConnectionConfig::new(), timeout).await?;
                query(connection, &service).await
            }
        };
        let (replies, errors) = fan_out::collect(sentinels.iter().map(query), enough).await;
        let count = replies.len();
        let is_known = replies.is_empty() || replies.iter().any(Option::is_some);
        if let Some(found) = replies.into_iter().flatten().max_by_key(|master| master.epoch) {
            return Ok((found, count));
        }
        let has_password = |error: &RedisError| {
            sentinels.iter().any(|sentinel| error::quotes_password(error, sentinel))
        };
        if errors.iter().any(has_password) {
            return Err(ClientError::refused("the sentinels do not accept the login"));
        }
        let refusal = errors.iter().find(|error| error::is_refusal(error));
        let error = refusal.or(errors.first());
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        Err(if refusal.is_some() {
            ClientError::refused(format!(
                "the sentinels refuse the login{error}; set `sentinel_username` and \
                 `sentinel_password` in the URL"
            ))
        } else if is_known {
            ClientError::not_executed(format!("no sentinel replies{error}"))
        } else {
            ClientError::refused(format!(
                "the sentinels know no service `{service}`; its name follows the hosts in the URL"
            ))
        })
    }

    /// Records the epoch of a master. A newer epoch makes the connections to earlier masters stale.
    /// Returns whether no newer epoch is known.
    fn record_epoch(&self, epoch: u64) -> bool {
        let is_newer = self.newest_epoch.send_if_modified(|newest| {
            let is_newer = *newest < epoch;
            *newest = epoch.max(*newest);
            is_newer
        });
        if is_newer {
            tracing::info!(epoch, "the sentinels report a new master");
        }
        *self.newest_epoch.borrow() <= epoch
    }

    /// Replaces the newest epoch by an older one, if it is still `known`.
    fn reset_epoch(&self, known: u64, epoch: u64) -> bool {
        self.newest_epoch.send_if_modified(|newest| {
            let is_known = *newest == known;
            if is_known {
                *newest = epoch;
            }
            is_known
        })
    }

    /// Subscribes to the announcements of each sentinel, on the current runtime, until the runtime
    /// ends or the manager is dropped.
    pub(super) fn follow(self: &Arc<Self>) {
        for sentinel in &self.settings.sentinels {
            let (sentinel, service) = (sentinel.clone(), self.settings.service.clone());
            let (this, timeout) = (Arc::downgrade(self), self.timeout);
            tokio::spawn(async move {
                while this.strong_count() > 0 {
                    // An error does not matter: there are other sentinels, and this one is tried
                    // again.
                    let _ = listen(&sentinel, &service, timeout, &this).await;
                    sleep(RECONNECT_DELAY).await;
                }
            });
        }
    }
}

impl Resolver for Sentinels {
    fn settings(&self) -> &ConnectionInfo {
        &self.settings.master
    }

    fn resolve(&self) -> Resolving<'_> {
        Box::pin(self.master())
    }
}

/// Omits the settings, which include passwords.
impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels").field("service", &self.settings.service).finish_non_exhaustive()
    }
}

/// Queries a sentinel for the master of a service, if it knows the service.
///
/// During a failover, a sentinel reports the address of the new master as soon as it has raised the
/// epoch, so the two belong together.
async fn query(
    mut connection: MultiplexedConnection,
    service: &str,
) -> Result<Option<Master>, RedisError> {
    let mut requests = redis::pipe();
    requests.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(service);
    requests.cmd("SENTINEL").arg("MASTER").arg(service);
    let replies = connection.send_packed_commands(&requests, 0, 2).await?;
    let Ok([address, details]) = <[Value; 2]>::try_from(replies) else { return Ok(None) };
    let Some((host, port)) = from_redis_value::<Option<(String, u16)>>(address.extract_error()?)?
    else {
        return Ok(None);
    };
    let details: BTreeMap<String, String> = from_redis_value(details.extract_error()?)?;
    let epoch = details.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    Ok(Some(Master { host, port, epoch }))
}

/// Follows the announcements of a sentinel until its connection breaks.
async fn listen(
    sentinel: &ConnectionInfo,
    service: &str,
    limit: Duration,
    sentinels: &Weak<Sentinels>,
) -> Result<(), RedisError> {
    let (sender, mut announcements) = mpsc::unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
        let announcement = match (push.kind, push.data.as_slice()) {
            (PushKind::Message, [_, Value::BulkString(text)]) => {
                Some(String::from_utf8_lossy(text).into_owned())
            }
            (PushKind::Disconnection, _) => None,
            _ => return Ok(()),
        };
        sender.send(announcement).map_err(|_| redis::aio::SendError)
    });
    let mut connection = connect(sentinel, config, limit).await?;
    connection.subscribe(SWITCH).await?;
    // The announcement may have preceded the subscription.
    record_master(&connection, service, sentinels).await?;
    loop {
        match timeout(PING_INTERVAL, announcements.recv()).await {
            Ok(Some(Some(announcement))) => {
                if announcement.split(' ').next() == Some(service) {
                    record_master(&connection, service, sentinels).await?;
                }
            }
            Ok(_) => return Ok(()),
            Err(_) => drop(connection.send_packed_command(&redis::cmd("PING")).await?),
        }
    }
}

/// Queries a followed sentinel, and records the epoch that it reports.
async fn record_master(
    connection: &MultiplexedConnection,
    service: &str,
    sentinels: &Weak<Sentinels>,
) -> Result<(), RedisError> {
    if let Some(master) = query(connection.clone(), service).await?
        && let Some(sentinels) = sentinels.upgrade()
    {
        sentinels.record_epoch(master.epoch);
    }
    Ok(())
}

async fn connect(
    sentinel: &ConnectionInfo,
    config: AsyncConnectionConfig,
    timeout: Duration,
) -> Result<MultiplexedConnection, RedisError> {
    let config = config.set_connection_timeout(Some(timeout)).set_response_timeout(Some(timeout));
    let settings = sentinel.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let client = Client::open(sentinel.clone().set_redis_settings(settings))?;
    client.get_multiplexed_async_connection_with_config(&config).await
}
