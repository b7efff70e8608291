//! Reads the holders of all locks from the servers, independently of what the clients believe.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use crate::history::{Event, Holder, Key, Log, now};
use crate::{KEYS, TTL, millis, name};

/// Timeout of the requests to one server.
const REPLY_TIMEOUT: Duration = millis(500);

/// The observed servers, and the rule that turns their replies into one holder.
#[derive(Debug)]
pub(crate) struct Observer {
    servers: Vec<ObservedServer>,
    rule: Rule,
}

/// Which replies decide who holds a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// The reply of the only server that is a master and owns the lock's slot.
    SingleMaster,
    /// The replies of this many eligible servers.
    Majority(usize),
}

#[derive(Debug)]
struct ObservedServer {
    client: redis::Client,
    connection: Option<MultiplexedConnection>,
}

/// What one server stores for one lock.
#[derive(Debug)]
struct Stored {
    token: Option<String>,
    /// The expiry of the key, or [`Duration::MAX`] without one.
    expiry: Duration,
}

/// The replies do not determine the holder of a lock.
#[derive(Debug, PartialEq, Eq)]
struct Undetermined;

impl Observer {
    pub(crate) fn new(urls: impl IntoIterator<Item = String>, rule: Rule) -> Self {
        let server = |url| {
            let client = redis::Client::open(url).expect("invalid URL of a server");
            ObservedServer { client, connection: None }
        };
        Self { servers: urls.into_iter().map(server).collect(), rule }
    }

    /// Records the holders of all locks, and returns whether every one of them is determined.
    pub(crate) async fn observe(&mut self, log: &Log) -> bool {
        let (sent, rule) = (now(), self.rule);
        let replies = join_all(self.servers.iter_mut().map(|server| server.read(rule))).await;
        let at = now();
        let mut undetermined = 0;
        for key in 0..KEYS {
            let replies: Vec<_> = replies.iter().map(|replies| replies[key].as_ref()).collect();
            match rule.holder(&replies, at) {
                Ok(holder) => log.record_at(at, Event::Seen { sent, key, holder }),
                Err(Undetermined) => undetermined += 1,
            }
        }
        undetermined == 0
    }
}

impl ObservedServer {
    /// Reads all locks, returning `None` where the rule does not accept this server.
    async fn read(&mut self, rule: Rule) -> Vec<Option<Stored>> {
        let replies = timeout(REPLY_TIMEOUT, self.request_all(rule)).await;
        if let Ok(Ok(replies)) = replies {
            return replies;
        }
        self.connection = None;
        (0..KEYS).map(|_| None).collect()
    }

    async fn request_all(&mut self, rule: Rule) -> RedisResult<Vec<Option<Stored>>> {
        let connection = match &self.connection {
            Some(connection) => connection,
            None => self.connection.insert(self.client.get_multiplexed_async_connection().await?),
        };
        let replies = join_all((0..KEYS).map(|key| request(connection.clone(), key, rule))).await;
        replies.into_iter().collect()
    }
}

/// Reads one lock, returning `None` where the rule does not accept the server.
async fn request(
    mut redis: MultiplexedConnection,
    key: Key,
    rule: Rule,
) -> RedisResult<Option<Stored>> {
    let mut commands = redis::pipe();
    commands.atomic();
    commands.cmd("INFO").arg(&["server", "replication"]);
    commands.cmd("GET").arg(name(key)).cmd("PTTL").arg(name(key));
    let reply = commands.query_async::<(String, Option<String>, i64)>(&mut redis).await;
    let (info, token, left) = match reply {
        Ok(reply) => reply,
        // A redirection: another server owns the slot.
        Err(error) if error.code().is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let expiry = left.try_into().map_or(Duration::MAX, |left| now() + millis(left));
    Ok(rule.accepts(&info).then_some(Stored { token, expiry }))
}

/// Returns the uptime of a server from its `INFO`.
pub(crate) fn uptime(info: &str) -> Duration {
    let field = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
    Duration::from_secs(field.and_then(|field| field.parse().ok()).expect("INFO has no uptime"))
}

/// Whether a Redlock server is eligible: it may have forgotten its votes when it started.
pub(crate) fn is_eligible(uptime: Duration) -> bool {
    // Redis rounds both its start time and its uptime to whole seconds.
    uptime > TTL + Duration::from_secs(1)
}

impl Rule {
    /// Whether the reply of a server with this `INFO` counts.
    fn accepts(self, info: &str) -> bool {
        match self {
            Self::SingleMaster => info.contains("role:master"),
            Self::Majority(_) => is_eligible(uptime(info)),
        }
    }

    /// Returns the holder of a lock, if there is one, by the replies of all servers.
    fn holder(
        self,
        replies: &[Option<&Stored>],
        at: Duration,
    ) -> Result<Option<Holder>, Undetermined> {
        let accepted: Vec<&Stored> = replies.iter().copied().flatten().collect();
        // A silent server may store the token for any length of time.
        let (quorum, silent) = match self {
            Self::SingleMaster if accepted.len() != 1 => return Err(Undetermined),
            Self::SingleMaster => (1, 0),
            Self::Majority(quorum) => (quorum, replies.len() - accepted.len()),
        };
        let mut expiries = BTreeMap::<&str, Vec<Duration>>::new();
        for stored in accepted {
            if let Some(token) = &stored.token {
                expiries.entry(token).or_default().push(stored.expiry);
            }
        }
        let most = expiries.into_iter().max_by_key(|(_, expiries)| expiries.len());
        let (token, mut expiries) = most.unwrap_or_default();
        if expiries.len() < quorum {
            let is_free = expiries.len() + silent < quorum;
            return if is_free { Ok(None) } else { Err(Undetermined) };
        }
        expiries.sort_unstable_by(|a, b| b.cmp(a));
        let expiry = expiries[quorum - silent - 1];
        let left = (expiry != Duration::MAX).then(|| expiry.saturating_sub(at));
        Ok(Some(Holder { token: token.to_owned(), left }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = millis(5_000);
    const MAJORITY: Rule = Rule::Majority(3);

    fn stored(token: &str, left: u64) -> Stored {
        Stored { token: Some(token.to_owned()), expiry: NOW + millis(left) }
    }

    fn free() -> Stored {
        Stored { token: None, expiry: Duration::MAX }
    }

    fn holder(rule: Rule, replies: &[Option<Stored>]) -> Result<Option<Holder>, Undetermined> {
        let replies: Vec<_> = replies.iter().map(Option::as_ref).collect();
        rule.holder(&replies, NOW)
    }

    fn held(token: &str, left: u64) -> Holder {
        Holder { token: token.to_owned(), left: Some(millis(left)) }
    }

    #[test]
    fn takes_holder_from_the_only_master() {
        let rule = Rule::SingleMaster;
        assert_eq!(holder(rule, &[None, Some(stored("a", 7)), None]), Ok(Some(held("a", 7))));
        assert_eq!(holder(rule, &[Some(free()), None]), Ok(None));
        assert_eq!(holder(rule, &[None, None]), Err(Undetermined));
        assert_eq!(holder(rule, &[Some(free()), Some(stored("a", 7))]), Err(Undetermined));
    }

    #[test]
    fn takes_holder_and_expiry_from_a_majority() {
        let votes = |tokens: &str| -> Vec<Option<Stored>> {
            let vote = |(place, token)| match token {
                '?' => None,
                '-' => Some(free()),
                token => Some(stored(&String::from(token), 10 * (place as u64 + 1))),
            };
            tokens.chars().enumerate().map(vote).collect()
        };
        assert_eq!(holder(MAJORITY, &votes("aaaaa")), Ok(Some(held("a", 30))));
        assert_eq!(holder(MAJORITY, &votes("aabba")), Ok(Some(held("a", 10))));
        assert_eq!(holder(MAJORITY, &votes("aabb-")), Ok(None));
        assert_eq!(holder(MAJORITY, &votes("-----")), Ok(None));
        // A silent server may store the token for longer than the others.
        assert_eq!(holder(MAJORITY, &votes("aaa??")), Ok(Some(held("a", 30))));
        assert_eq!(holder(MAJORITY, &votes("aaaa?")), Ok(Some(held("a", 30))));
        assert_eq!(holder(MAJORITY, &votes("aa??-")), Err(Undetermined));
        assert_eq!(holder(MAJORITY, &votes("-a-?-")), Ok(None));
        assert_eq!(holder(MAJORITY, &votes("???--")), Err(Undetermined));
    }

    #[test]
    fn ignores_redlock_server_that_has_just_started() {
        let info = |uptime| format!("# Server\r\nuptime_in_seconds:{uptime}\r\nrole:master\r\n");
        assert!(MAJORITY.accepts(&info(3)) && !MAJORITY.accepts(&info(2)));
        assert!(
            Rule::SingleMaster.accepts(&info(0)) && !Rule::SingleMaster.accepts("role:slave\r\n")
        );
    }
}
