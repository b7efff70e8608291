//! Which server answers, and since when: one that has lost its data must not vote.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;

use crate::store::StoreError;
use crate::store::redis::answer::unexpected;
use crate::store::redis::check;
use crate::store::redis::line::Line;

/// What the uptime, which is in whole seconds, may be too great by.
const ROUNDING: Duration = Duration::from_secs(1);

/// A server process, as it describes itself.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// Tells server processes apart.
    pub(super) run_id: Arc<str>,
    /// Whether a restart loses nothing that was answered.
    keeps_all: bool,
    uptime: Duration,
    /// When the uptime was told.
    read: Instant,
}

impl Identity {
    pub(super) async fn ask(line: &Line) -> Result<Self, StoreError> {
        let mut questions = redis::pipe();
        questions.cmd("INFO").arg("server").cmd("CONFIG").arg("GET").arg("*append*");
        let answers = line.send(&questions).await?;
        let Ok([info, config]) = <[_; 2]>::try_from(answers) else {
            return Err(unexpected(&Value::Nil));
        };
        let info = info?;
        // Who may not ask does not know, and is careful.
        let keeps_all = config.is_ok_and(|config| keeps_all(&config));
        Self::read(&info, keeps_all).ok_or_else(|| unexpected(&info))
    }

    fn read(info: &Value, keeps_all: bool) -> Option<Self> {
        let field = |name| check::info(info, name);
        let uptime = Duration::from_secs(field("uptime_in_seconds")?.parse().ok()?);
        Some(Self { run_id: field("run_id")?.into(), keeps_all, uptime, read: Instant::now() })
    }

    /// Says why the server must not vote on a lock with this ttl, if that is so: it has started so lately
    /// that its predecessor may have voted for a holder whose lease is not over.
    pub(super) fn check_age(&self, ttl: Duration) -> Result<(), StoreError> {
        let age = self.uptime + self.read.elapsed();
        let missing = (ttl + ROUNDING).saturating_sub(age);
        if self.keeps_all || missing.is_zero() {
            return Ok(());
        }
        let text = format!(
            "started {}s ago and may have lost locks, its votes count in {missing:.0?}; with `appendonly yes` \
             and `appendfsync always` they would at once",
            age.as_secs()
        );
        Err(StoreError::NotExecuted(text.into()))
    }
}

/// Whether a server with these settings answers only after the disk has what it did.
fn keeps_all(config: &Value) -> bool {
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
    fn a_server_does_not_vote_before_it_is_older_than_the_ttl() {
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
    fn only_what_is_on_disk_before_the_answer_is_kept() {
        let config = |only: &str, sync: &str, pause: &str| {
            let pairs =
                [("appendonly", only), ("appendfsync", sync), ("no-appendfsync-on-rewrite", pause)];
            Value::Map(pairs.map(|(name, value)| (text(name), text(value))).to_vec())
        };
        assert!(keeps_all(&config("yes", "always", "no")));
        assert!(!keeps_all(&config("no", "always", "no")));
        assert!(!keeps_all(&config("yes", "everysec", "no")));
        assert!(!keeps_all(&config("yes", "always", "yes")));
        assert!(!keeps_all(&Value::Nil));
    }
}
