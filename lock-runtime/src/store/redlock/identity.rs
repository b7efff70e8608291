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
    /// Since when it is found in the place of another server, which is no restart of that.
    replaced: Option<Instant>,
}

/// Who has answered at an address last.
#[derive(Debug)]
pub(super) struct Last {
    run_id: Arc<str>,
    heard: Instant,
    replaced: Option<Instant>,
}

impl Last {
    /// Takes note that a server is asked once more; another one is asked on an old line.
    pub(super) fn hear(&mut self, identity: &Identity) {
        if self.run_id == identity.run_id {
            self.heard = Instant::now();
        }
    }
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
        let (run_id, read) = (field("run_id")?.into(), Instant::now());
        Some(Self { run_id, keeps_all, uptime, read, replaced: None })
    }

    fn age(&self) -> Duration {
        self.uptime + self.read.elapsed()
    }

    /// Compares the server with the one that has answered at its address last. One that is older than the
    /// silence of that one is not that one restarted: the address leads elsewhere, or a clock was put
    /// forward, which the uptime counts on.
    pub(super) fn follow(&mut self, last: &mut Option<Last>) {
        let now = Instant::now();
        self.replaced = last.as_ref().and_then(|last| {
            if last.run_id == self.run_id {
                return last.replaced;
            }
            let silence = now.saturating_duration_since(last.heard);
            (self.age() > silence + ROUNDING).then_some(now)
        });
        let run_id = Arc::clone(&self.run_id);
        *last = Some(Last { run_id, heard: now, replaced: self.replaced });
    }

    /// Says why the server must not vote on a lock with this ttl, if that is so: it has started so lately
    /// that its predecessor may have voted for a holder whose lease is not over.
    pub(super) fn check_age(&self, ttl: Duration) -> Result<(), StoreError> {
        let age = match self.replaced {
            Some(replaced) => replaced.elapsed(),
            None if self.keeps_all => return Ok(()),
            None => self.age(),
        };
        let missing = (ttl + ROUNDING).saturating_sub(age);
        if missing.is_zero() {
            return Ok(());
        }
        let age = age.as_secs();
        let text = if self.replaced.is_some() {
            format!(
                "was another server until {age}s ago, and may not know what that had granted; \
                 its votes count in {missing:.0?}"
            )
        } else {
            format!(
                "started {age}s ago and may have lost locks, its votes count in {missing:.0?}; with \
                 `appendonly yes` and `appendfsync always` they would at once"
            )
        };
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
    fn who_is_older_than_the_silence_of_another_one_is_no_restart_of_that() {
        let at = |run_id: &str, uptime: u64, ago: Duration| {
            let info = text(&format!("run_id:{run_id}\r\nuptime_in_seconds:{uptime}\r\n"));
            let last = Instant::now().checked_sub(ago).unwrap();
            let mut found = Identity::read(&info, true).unwrap();
            let (run_id, heard) = ("ab12".into(), last);
            let mut last = Some(Last { run_id, heard, replaced: None });
            found.follow(&mut last);
            assert_eq!(last.unwrap().run_id, found.run_id);
            found
        };
        assert!(at("ab12", 90, SECOND * 10).check_age(SECOND * 60).is_ok(), "the same");
        assert!(at("cd34", 9, SECOND * 10).check_age(SECOND * 60).is_ok(), "restarted");
        let other = at("cd34", 90, SECOND * 10);
        let error = other.check_age(SECOND * 60).unwrap_err().to_string();
        assert!(error.contains("was another server until 0s ago"), "{error}");
        let (run_id, heard) = ("cd34".into(), Instant::now());
        let mut last = Some(Last { run_id, heard, replaced: other.replaced });
        let mut again = Identity { replaced: None, ..other };
        again.follow(&mut last);
        assert!(again.check_age(SECOND * 60).is_err(), "on another line");
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
