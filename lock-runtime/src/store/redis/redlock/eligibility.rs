//! The eligibility of servers: each has one vote, and none after a restart that may have lost
//! votes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::Value;

use crate::store::redis::client::connection::Connection;
use crate::store::redis::client::error::ClientError;
use crate::store::redis::client::handshake;
use crate::sync::lock;

/// The error of an uptime, which servers report in whole seconds.
const ROUNDING: Duration = Duration::from_secs(1);

/// The servers that take part in one vote.
#[derive(Debug, Default)]
pub(super) struct Voters(Mutex<Vec<Voter>>);

#[derive(Debug)]
struct Voter {
    name: Arc<str>,
    run_id: Arc<str>,
}

impl Voters {
    /// Admits a server, unless it already takes part under another name.
    pub(super) fn admit(&self, name: &Arc<str>, identity: &Identity) -> Result<(), ClientError> {
        let run_id = &identity.run_id;
        let mut voters = lock(&self.0);
        if let Some(twin) = voters.iter().find(|voter| voter.run_id == *run_id) {
            let text = format!("is the same server as {}, which has one vote", twin.name);
            return Err(ClientError::refused(text));
        }
        voters.push(Voter { name: Arc::clone(name), run_id: Arc::clone(run_id) });
        Ok(())
    }
}

/// A server process, as it describes itself.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// Identifies the server process.
    run_id: Arc<str>,
    /// Whether a restart loses no write that the server has replied to.
    is_durable: bool,
    uptime: Duration,
    /// When the uptime was read.
    read: Instant,
    /// When it was found at the address of another server, unless it is that server restarted.
    replaced: Option<Instant>,
}

/// The server process that replied last at an address.
#[derive(Debug)]
pub(super) struct LastServer {
    run_id: Arc<str>,
    replied: Instant,
    replaced: Option<Instant>,
}

impl LastServer {
    /// Records another use of the server. Ignores another server, which may still be used on an old
    /// connection.
    pub(super) fn record(&mut self, identity: &Identity) {
        if self.run_id == identity.run_id {
            self.replied = Instant::now();
        }
    }
}

impl Identity {
    pub(super) async fn query(connection: &Connection) -> Result<Self, ClientError> {
        let mut requests = redis::pipe();
        requests.cmd("INFO").arg("server").cmd("CONFIG").arg("GET").arg("*append*");
        let replies = connection.send(&requests).await?;
        let Ok([info, config]) = <[_; 2]>::try_from(replies) else {
            return Err(ClientError::unexpected(&Value::Nil));
        };
        let info = info?;
        // Without permission for `CONFIG`, the server counts as not durable.
        let is_durable = config.is_ok_and(|config| is_durable(&config));
        Self::read(&info, is_durable).ok_or_else(|| ClientError::unexpected(&info))
    }

    fn read(info: &Value, is_durable: bool) -> Option<Self> {
        let field = |name| handshake::field(info, name);
        let uptime = Duration::from_secs(field("uptime_in_seconds")?.parse().ok()?);
        let (run_id, read) = (field("run_id")?.into(), Instant::now());
        Some(Self { run_id, is_durable, uptime, read, replaced: None })
    }

    fn age(&self) -> Duration {
        self.uptime + self.read.elapsed()
    }

    /// Compares the server with its predecessor, the last one that replied at its address. With an
    /// uptime longer than the silence of the predecessor, it is not the predecessor restarted: the
    /// address leads elsewhere, or the clock that the uptime depends on was put forward.
    pub(super) fn compare(&mut self, last: &mut Option<LastServer>) {
        let now = Instant::now();
        self.replaced = last.as_ref().and_then(|last| {
            if last.run_id == self.run_id {
                return last.replaced;
            }
            let silence = now.saturating_duration_since(last.replied);
            (self.age() > silence + ROUNDING).then_some(now)
        });
        let run_id = Arc::clone(&self.run_id);
        *last = Some(LastServer { run_id, replied: now, replaced: self.replaced });
    }

    /// Fails if the server must not vote on a lock with this ttl: before its recent start, it may
    /// have voted for a holder whose lease is not over.
    pub(super) fn check_age(&self, ttl: Duration) -> Result<(), ClientError> {
        let age = match self.replaced {
            Some(replaced) => replaced.elapsed(),
            None if self.is_durable => return Ok(()),
            None => self.age(),
        };
        let missing = (ttl + ROUNDING).saturating_sub(age);
        if missing.is_zero() {
            return Ok(());
        }
        let age = age.as_secs();
        let text = if self.replaced.is_some() {
            format!(
                "replaced another server {age}s ago and may not know which locks that server granted; \
                 its votes count in {missing:.0?}"
            )
        } else {
            format!(
                "started {age}s ago and may have lost locks; its votes count in {missing:.0?} (at once \
                 with `appendonly yes` and `appendfsync always`)"
            )
        };
        Err(ClientError::not_executed(text))
    }
}

/// Whether a server with these settings replies only once its writes are on disk.
fn is_durable(config: &Value) -> bool {
    let config: HashMap<String, String> = redis::from_redis_value_ref(config).unwrap_or_default();
    let is = |name: &str, value: &str| config.get(name).is_some_and(|set| set == value);
    is("appendonly", "yes") && is("appendfsync", "always") && is("no-appendfsync-on-rewrite", "no")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn young_server_does_not_vote() {
        let info = text("# Server\r\nrun_id:ab12\r\nuptime_in_seconds:30\r\n");
        let young = Identity::read(&info, false).unwrap();
        assert_eq!(&*young.run_id, "ab12");
        assert!(young.check_age(SECOND * 28).is_ok());
        let error = young.check_age(SECOND * 60).unwrap_err();
        assert!(!error.may_have_run());
        assert!(
            error.to_string().contains("30s ago") && error.to_string().contains("in 31s"),
            "{error}"
        );
        let mut older = young.clone();
        older.read = older.read.checked_sub(SECOND * 31).unwrap_or(older.read);
        assert!(older.check_age(SECOND * 60).is_ok());
        assert!(Identity::read(&info, true).unwrap().check_age(SECOND * 3_600).is_ok());
        for other in ["", "run_id:ab12", "uptime_in_seconds:30", "run_id:ab\r\nuptime_in_seconds:x"]
        {
            assert!(Identity::read(&text(other), false).is_none(), "{other}");
        }
    }

    #[test]
    fn server_older_than_the_silence_is_not_a_restart() {
        let at = |run_id: &str, uptime: u64, ago: Duration| {
            let info = text(&format!("run_id:{run_id}\r\nuptime_in_seconds:{uptime}\r\n"));
            let last = Instant::now().checked_sub(ago).unwrap();
            let mut found = Identity::read(&info, true).unwrap();
            let (run_id, replied) = ("ab12".into(), last);
            let mut last = Some(LastServer { run_id, replied, replaced: None });
            found.compare(&mut last);
            assert_eq!(last.unwrap().run_id, found.run_id);
            found
        };
        assert!(at("ab12", 90, SECOND * 10).check_age(SECOND * 60).is_ok(), "the same");
        assert!(at("cd34", 9, SECOND * 10).check_age(SECOND * 60).is_ok(), "restarted");
        let other = at("cd34", 90, SECOND * 10);
        let error = other.check_age(SECOND * 60).unwrap_err().to_string();
        assert!(error.contains("replaced another server 0s ago"), "{error}");
        let (run_id, replied) = ("cd34".into(), Instant::now());
        let mut last = Some(LastServer { run_id, replied, replaced: other.replaced });
        let mut again = Identity { replaced: None, ..other };
        again.compare(&mut last);
        assert!(again.check_age(SECOND * 60).is_err(), "on another connection");
    }

    #[test]
    fn server_is_durable_with_writes_on_disk_before_the_reply() {
        let config = |only: &str, sync: &str, pause: &str| {
            let pairs =
                [("appendonly", only), ("appendfsync", sync), ("no-appendfsync-on-rewrite", pause)];
            Value::Map(pairs.map(|(name, value)| (text(name), text(value))).to_vec())
        };
        assert!(is_durable(&config("yes", "always", "no")));
        assert!(!is_durable(&config("no", "always", "no")));
        assert!(!is_durable(&config("yes", "everysec", "no")));
        assert!(!is_durable(&config("yes", "always", "yes")));
        assert!(!is_durable(&Value::Nil));
    }
}
