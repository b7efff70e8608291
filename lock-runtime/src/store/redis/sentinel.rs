//! The master of a service, as the sentinels know it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisError,
    Value, from_redis_value,
};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::address::{self, SentinelAddress};
use super::fault::{self, ConnectError};
use super::server::Common;
use super::survey::survey;

/// The channel on which a sentinel says that a service has another master.
const SWITCH: &str = "+switch-master";
/// Pause before a sentinel that went away is followed again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a sentinel that has nothing to say is asked whether it is still there.
const PULSE: Duration = Duration::from_secs(10);

/// The sentinels of a service.
#[derive(Debug)]
pub(in crate::store) struct Sentinel {
    address: SentinelAddress,
    common: Arc<Common>,
}

/// The answer of one sentinel.
#[derive(Debug)]
struct Master {
    host: String,
    port: u16,
    /// The number of the failover by which it became the master.
    epoch: u64,
}

impl Sentinel {
    pub(super) fn new(address: SentinelAddress, common: Arc<Common>) -> Self {
        Self { address, common }
    }

    /// How to connect to the master; the address is not its own.
    pub(super) fn master_settings(&self) -> &ConnectionInfo {
        &self.address.master
    }

    /// How to connect to the master, and its epoch.
    pub(super) async fn master(&self) -> Result<(ConnectionInfo, u64), ConnectError> {
        let all = self.address.sentinels.len();
        let newest = &self.common.newest_epoch;
        for enough in [all / 2 + 1, all] {
            let known = newest.load(Ordering::Acquire);
            let (Master { host, port, epoch }, answers) = self.ask(enough).await?;
            // A few may not have heard of the last failover; all of them may have been set up anew.
            let is_current = if epoch >= known {
                self.common.note_epoch(epoch)
            } else {
                answers == all
                    && newest
                        .compare_exchange(known, epoch, Ordering::AcqRel, Ordering::Relaxed)
                        .is_ok()
            };
            if is_current {
                return Ok((address::at(&self.address.master, &host, port), epoch));
            }
        }
        Err(ConnectError::NoMaster("the sentinels that answer know an older master".into()))
    }

    /// What the sentinel knows that knows the latest failover, of the first ones to answer, and how many
    /// have answered.
    async fn ask(&self, enough: usize) -> Result<(Master, usize), ConnectError> {
        let SentinelAddress { sentinels, service, .. } = &self.address;
        let ask = |sentinel: &ConnectionInfo| {
            let (sentinel, service, timeout) =
                (sentinel.clone(), service.clone(), self.common.timeout);
            async move {
                let connection = connect(&sentinel, AsyncConnectionConfig::new(), timeout).await?;
                ask(connection, &service).await
            }
        };
        let (answers, errors) = survey(sentinels.iter().map(ask), enough).await;
        let count = answers.len();
        let is_known = answers.is_empty() || answers.iter().any(Option::is_some);
        if let Some(found) = answers.into_iter().flatten().max_by_key(|master| master.epoch) {
            return Ok((found, count));
        }
        let refusal = errors.iter().find(|error| fault::is_refusal(error));
        let error = refusal.or(errors.first());
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        Err(if refusal.is_some() {
            ConnectError::Forbidden(format!(
                "the sentinels refuse{error}; their login is `sentinel_username` and `sentinel_password` of the URL"
            ))
        } else if is_known {
            ConnectError::NoMaster(format!("no sentinel answers{error}"))
        } else {
            ConnectError::Forbidden(format!(
                "the sentinels know no service `{service}`; its name stands behind the hosts of the URL"
            ))
        })
    }

    /// Leaves a master at once when a sentinel says that there is another, on the runtime that this is
    /// called on and as long as it or the manager lives.
    pub(super) fn follow(&self) {
        for sentinel in &self.address.sentinels {
            let (sentinel, service) = (sentinel.clone(), self.address.service.clone());
            let (common, timeout) = (Arc::downgrade(&self.common), self.common.timeout);
            tokio::spawn(async move {
                while common.strong_count() > 0 {
                    // What went wrong does not matter: there are others, and it is tried again.
                    let _ = listen(&sentinel, &service, timeout, &common).await;
                    sleep(PAUSE).await;
                }
            });
        }
    }
}

/// Asks a sentinel for the master of a service, if it knows the service.
///
/// While a failover goes on, it gives the address of the new master as soon as it has raised the
/// epoch, so the two belong together.
async fn ask(
    mut connection: MultiplexedConnection,
    service: &str,
) -> Result<Option<Master>, RedisError> {
    let mut questions = redis::pipe();
    questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(service);
    questions.cmd("SENTINEL").arg("MASTER").arg(service);
    let answers = connection.send_packed_commands(&questions, 0, 2).await?;
    let Ok([address, details]) = <[Value; 2]>::try_from(answers) else { return Ok(None) };
    let Some((host, port)) = from_redis_value::<Option<(String, u16)>>(address.extract_error()?)?
    else {
        return Ok(None);
    };
    let details: BTreeMap<String, String> = from_redis_value(details.extract_error()?)?;
    let epoch = details.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    Ok(Some(Master { host, port, epoch }))
}

/// Follows a sentinel until it goes away.
async fn listen(
    sentinel: &ConnectionInfo,
    service: &str,
    limit: Duration,
    common: &Weak<Common>,
) -> Result<(), RedisError> {
    let (events, mut heard) = mpsc::unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
        let event = match (push.kind, push.data.as_slice()) {
            (PushKind::Message, [_, Value::BulkString(text)]) => {
                Some(String::from_utf8_lossy(text).into_owned())
            }
            (PushKind::Disconnection, _) => None,
            _ => return Ok(()),
        };
        events.send(event).map_err(|_| redis::aio::SendError)
    });
    let mut connection = connect(sentinel, config, limit).await?;
    connection.subscribe(SWITCH).await?;
    // It may have been said before somebody listened.
    learn(&connection, service, common).await?;
    loop {
        match timeout(PULSE, heard.recv()).await {
            Ok(Some(Some(event))) => {
                if event.split(' ').next() == Some(service) {
                    learn(&connection, service, common).await?;
                }
            }
            Ok(_) => return Ok(()),
            Err(_) => drop(connection.send_packed_command(&redis::cmd("PING")).await?),
        }
    }
}

/// Asks a sentinel that is followed.
async fn learn(
    connection: &MultiplexedConnection,
    service: &str,
    common: &Weak<Common>,
) -> Result<(), RedisError> {
    if let Some(master) = ask(connection.clone(), service).await?
        && let Some(common) = common.upgrade()
    {
        common.note_epoch(master.epoch);
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
