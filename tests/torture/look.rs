//! What the servers keep, whoever claims to hold it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use crate::history::{Event, Holder, Key, Log, now};
use crate::{KEYS, TTL, millis, name};

/// How long a server may take to answer.
const PATIENCE: Duration = millis(500);

/// The servers, and the rule by which they answer as one.
#[derive(Debug)]
pub(crate) struct Witnesses {
    servers: Vec<Witness>,
    rule: Rule,
}

/// Whose word counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// That of the only server that says it is a master and has the lock's slot.
    TheMaster,
    /// That of so many servers, if they may vote.
    AMajority(usize),
}

#[derive(Debug)]
struct Witness {
    client: redis::Client,
    connection: Option<MultiplexedConnection>,
}

/// What one server keeps of one lock.
#[derive(Debug)]
struct Kept {
    token: Option<String>,
    /// When it expires; after all time if never.
    until: Duration,
}

/// The servers that answered do not tell who holds a lock.
#[derive(Debug, PartialEq, Eq)]
struct NotKnown;

impl Witnesses {
    pub(crate) fn new(urls: impl IntoIterator<Item = String>, rule: Rule) -> Self {
        let witness = |url| {
            let client = redis::Client::open(url).expect("the URL is valid");
            Witness { client, connection: None }
        };
        Self { servers: urls.into_iter().map(witness).collect(), rule }
    }

    /// Notes who holds the locks, and tells whether that is known of all of them.
    pub(crate) async fn look(&mut self, log: &Log) -> bool {
        let (sent, rule) = (now(), self.rule);
        let answers = join_all(self.servers.iter_mut().map(|server| server.look(rule))).await;
        let at = now();
        let mut unknown = 0;
        for key in 0..KEYS {
            let answers: Vec<_> = answers.iter().map(|answers| answers[key].as_ref()).collect();
            match rule.holder(&answers, at) {
                Ok(holder) => log.note_at(at, Event::Seen { sent, key, holder }),
                Err(NotKnown) => unknown += 1,
            }
        }
        unknown == 0
    }
}

impl Witness {
    /// What this server says of each lock, where its word counts.
    async fn look(&mut self, rule: Rule) -> Vec<Option<Kept>> {
        let answers = timeout(PATIENCE, self.ask_for_all(rule)).await;
        if let Ok(Ok(answers)) = answers {
            return answers;
        }
        self.connection = None;
        (0..KEYS).map(|_| None).collect()
    }

    async fn ask_for_all(&mut self, rule: Rule) -> RedisResult<Vec<Option<Kept>>> {
        let connection = match &self.connection {
            Some(connection) => connection,
            None => self.connection.insert(self.client.get_multiplexed_async_connection().await?),
        };
        let answers = join_all((0..KEYS).map(|key| ask(connection.clone(), key, rule))).await;
        answers.into_iter().collect()
    }
}

/// What a server says of a lock; nothing if that does not count.
async fn ask(mut redis: MultiplexedConnection, key: Key, rule: Rule) -> RedisResult<Option<Kept>> {
    let mut questions = redis::pipe();
    questions.atomic();
    questions.cmd("INFO").arg(&["server", "replication"]);
    questions.cmd("GET").arg(name(key)).cmd("PTTL").arg(name(key));
    let answer = questions.query_async::<(String, Option<String>, i64)>(&mut redis).await;
    let (info, token, left) = match answer {
        Ok(answer) => answer,
        // Another one has the slot.
        Err(error) if error.code().is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let until = left.try_into().map_or(Duration::MAX, |left| now() + millis(left));
    Ok(rule.counts(&info).then_some(Kept { token, until }))
}

/// For how many seconds a server has run.
pub(crate) fn uptime(info: &str) -> Duration {
    let field = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
    Duration::from_secs(field.and_then(|field| field.parse().ok()).expect("servers tell their age"))
}

impl Rule {
    /// Whether a server has a say that describes itself so.
    fn counts(self, info: &str) -> bool {
        match self {
            Self::TheMaster => info.contains("role:master"),
            Self::AMajority(_) => votes(uptime(info)),
        }
    }

    /// The holder of a lock, if there is one, by the answers of all servers.
    fn holder(self, answers: &[Option<&Kept>], at: Duration) -> Result<Option<Holder>, NotKnown> {
        let known: Vec<&Kept> = answers.iter().copied().flatten().collect();
        // Who says nothing may keep it for ever.
        let (votes, silent) = match self {
            Self::TheMaster if known.len() != 1 => return Err(NotKnown),
            Self::TheMaster => (1, 0),
            Self::AMajority(votes) => (votes, answers.len() - known.len()),
        };
        let mut ends = BTreeMap::<&str, Vec<Duration>>::new();
        for kept in known {
            if let Some(token) = &kept.token {
                ends.entry(token).or_default().push(kept.until);
            }
        }
        let most = ends.into_iter().max_by_key(|(_, ends)| ends.len());
        let (token, mut ends) = most.unwrap_or_default();
        if ends.len() < votes {
            return if ends.len() + silent < votes { Ok(None) } else { Err(NotKnown) };
        }
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let end = ends[votes - silent - 1];
        let left = (end != Duration::MAX).then(|| end.saturating_sub(at));
        Ok(Some(Holder { token: token.to_owned(), left }))
    }
}

/// Whether one of independent servers has a vote: it may have forgotten locks when it started.
pub(crate) fn votes(uptime: Duration) -> bool {
    // Both its beginning and its age are in whole seconds.
    uptime > TTL + Duration::from_secs(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = millis(5_000);
    const MOST: Rule = Rule::AMajority(3);

    fn kept(token: &str, left: u64) -> Kept {
        Kept { token: Some(token.to_owned()), until: NOW + millis(left) }
    }

    fn free() -> Kept {
        Kept { token: None, until: Duration::MAX }
    }

    fn holder(rule: Rule, answers: &[Option<Kept>]) -> Result<Option<Holder>, NotKnown> {
        let answers: Vec<_> = answers.iter().map(Option::as_ref).collect();
        rule.holder(&answers, NOW)
    }

    fn held(token: &str, left: u64) -> Holder {
        Holder { token: token.to_owned(), left: Some(millis(left)) }
    }

    #[test]
    fn the_only_master_tells_who_holds_a_lock() {
        let rule = Rule::TheMaster;
        assert_eq!(holder(rule, &[None, Some(kept("a", 7)), None]), Ok(Some(held("a", 7))));
        assert_eq!(holder(rule, &[Some(free()), None]), Ok(None));
        assert_eq!(holder(rule, &[None, None]), Err(NotKnown));
        assert_eq!(holder(rule, &[Some(free()), Some(kept("a", 7))]), Err(NotKnown));
    }

    #[test]
    fn a_majority_tells_who_holds_a_lock_and_until_when() {
        let votes = |tokens: &str| -> Vec<Option<Kept>> {
            let vote = |(place, token)| match token {
                '?' => None,
                '-' => Some(free()),
                token => Some(kept(&String::from(token), 10 * (place as u64 + 1))),
            };
            tokens.chars().enumerate().map(vote).collect()
        };
        assert_eq!(holder(MOST, &votes("aaaaa")), Ok(Some(held("a", 30))));
        assert_eq!(holder(MOST, &votes("aabba")), Ok(Some(held("a", 10))));
        assert_eq!(holder(MOST, &votes("aabb-")), Ok(None));
        assert_eq!(holder(MOST, &votes("-----")), Ok(None));
        // Who is silent may keep it for longer than those that are not.
        assert_eq!(holder(MOST, &votes("aaa??")), Ok(Some(held("a", 30))));
        assert_eq!(holder(MOST, &votes("aaaa?")), Ok(Some(held("a", 30))));
        assert_eq!(holder(MOST, &votes("aa??-")), Err(NotKnown));
        assert_eq!(holder(MOST, &votes("-a-?-")), Ok(None));
        assert_eq!(holder(MOST, &votes("???--")), Err(NotKnown));
    }

    #[test]
    fn a_server_that_has_just_started_has_no_vote() {
        let info = |age| format!("# Server\r\nuptime_in_seconds:{age}\r\nrole:master\r\n");
        assert!(MOST.counts(&info(3)) && !MOST.counts(&info(2)));
        assert!(Rule::TheMaster.counts(&info(0)) && !Rule::TheMaster.counts("role:slave\r\n"));
    }
}
