//! The scripts on a real server against the reference, in random histories.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use harness::Server as Redis;
use lock_runtime::internals::scripts;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Script};

use crate::random::Random;
use crate::reference::{Answer, Holder, Inbox, Message, Question, Server, Token, Turns};
use crate::steps::Step;

/// How many histories are compared by default; `HISTORIES` sets another number.
const HISTORIES: u64 = 25_000;
/// Histories that are sent together.
const BATCH: u64 = 100;
/// The first instant of the year 2100, in microseconds.
const START: u64 = 4_102_444_800_000_000;
/// What clients hold that do not queue; longer than what is told of a holder.
const FOREIGN: &str = "a-value-that-is-longer-than-the-sixty-four-bytes-of-it-that-are-told";

static HISTORY: LazyLock<Script> = LazyLock::new(|| {
    let code = include_str!("histories.lua")
        .replace(" ACQUIRE\n", scripts::ACQUIRE)
        .replace(" RELEASE\n", scripts::RELEASE)
        .replace(" RENEW\n", scripts::RENEW);
    Script::new(&code)
});

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn scripts_do_what_the_reference_says() {
    let redis = Redis::start().await;
    let mut connection = redis.connection().await;
    let _: String = HISTORY.prepare_invoke().load_async(&mut connection).await.unwrap();
    let mut counts = BTreeMap::new();
    let mut before = tokio::spawn(async {});
    let histories = std::env::var("HISTORIES").map_or(HISTORIES, |all| all.parse().unwrap());
    for batch in 0..histories / BATCH {
        let seeds = batch * BATCH..(batch + 1) * BATCH;
        let histories = seeds.map(|seed| History::random(seed, &mut counts)).collect();
        // The server works on this batch while the next one is made up.
        let batch = tokio::spawn(compare(histories, connection.clone()));
        std::mem::replace(&mut before, batch).await.unwrap();
    }
    before.await.unwrap();
    println!("{histories} histories: {counts:?}");
    let rare: Vec<_> = counts.iter().filter(|(_, count)| **count < histories / 1_000).collect();
    assert!(counts.len() == 14 && rare.is_empty(), "what is rare is not tested: {rare:?}");
}

async fn compare(histories: Vec<History>, mut redis: MultiplexedConnection) {
    let mut pipeline = Pipeline::new();
    for history in &histories {
        pipeline.invoke_script(HISTORY.key(&KEYS[..]).arg(&history.calls));
    }
    let answers: Vec<Vec<String>> = pipeline.query_async(&mut redis).await.unwrap();
    for (history, answer) in histories.iter().zip(answers) {
        let differs =
            history.expected.iter().zip(&answer).find(|((_, expected), seen)| expected != *seen);
        if let Some(((number, expected), seen)) = differs {
            let steps = &history.steps[..=*number];
            let seed = history.seed;
            panic!("seed {seed}: after {steps:#?}\nthe scripts: {seen}\nreference:   {expected}");
        }
    }
}

/// The keys of the lock.
const KEYS: [&str; 4] = ["{k}", "{k}:waiters", "{k}:peers", "fence"];

struct History {
    seed: u64,
    steps: Vec<Step>,
    /// The arguments of `histories.lua`.
    calls: Vec<String>,
    /// What is to be seen after the steps with these numbers.
    expected: Vec<(usize, String)>,
}

impl History {
    fn random(seed: u64, counts: &mut BTreeMap<&'static str, u64>) -> Self {
        let mut random = Random::new(seed);
        let mut server = Server { now_us: START, connected: [0, 1].into(), ..Server::default() };
        let mut history = Self { seed, steps: Vec::new(), calls: Vec::new(), expected: Vec::new() };
        for number in 0..random.one_of(&[5, 8, 10, 12, 15]) {
            let step = Step::random(&mut random, &server);
            history.steps.push(step);
            if let Some((script, args, reply)) = call(step, &mut server, counts) {
                let inboxes = server.connected.iter().map(|&inbox| name(Some(inbox))).collect();
                let call = [server.now_us.to_string(), inboxes, script.to_owned()];
                history.calls.extend(call);
                history.calls.push(args.len().to_string());
                history.calls.extend(args);
                history.expected.push((number, line(&reply, &server)));
            }
        }
        history
    }
}

/// Makes the step on the reference. Returns the script that makes it on the server, its arguments,
/// and what it is to reply.
fn call(
    step: Step,
    server: &mut Server,
    counts: &mut BTreeMap<&'static str, u64>,
) -> Option<(&'static str, Vec<String>, String)> {
    let [lock, waiters, peers, fence] = KEYS;
    let mut count = |what| *counts.entry(what).or_default() += 1;
    let command = |words: &[&str]| {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Some(("command", words, "OK".to_owned()))
    };
    match step {
        Step::Pass(us) => {
            server.now_us += us;
            None
        }
        Step::Back(us) => {
            server.now_us -= us;
            None
        }
        Step::FailOver => {
            server.epoch += 1;
            None
        }
        Step::Connect(inbox) => {
            server.connected.insert(inbox);
            None
        }
        Step::Disconnect(inbox) => {
            server.connected.remove(&inbox);
            None
        }
        Step::Acquire(question) => {
            let Question { token, ttl, pause, inbox, seen } = question;
            let answer = server.acquire(question);
            count(kind_of(answer, server));
            let args = [
                text(token),
                ttl.to_string(),
                or_empty(pause),
                name(inbox),
                seen.to_string(),
                server.epoch.to_string(),
            ];
            Some(("acquire", args.into(), spell(answer)))
        }
        Step::Release(token, keep, seen) => {
            let turn = server.turns.turn;
            let held = server.release(token, keep, seen);
            count(match (held, server.holder, server.sent.first()) {
                (false, _, None) => "not its own",
                (false, _, Some(_)) => "not its own, and the next in the queue was told",
                (true, None, _) if server.turns.turn > turn => "released for a turn",
                (true, None, _) => "released",
                (true, Some(_), Some((_, Message::Held(_)))) => "handed over",
                (true, Some(_), Some(_)) => "kept, and the first in the queue was told",
                (true, Some(_), None) => "kept, or handed over without a message",
            });
            let args =
                vec![text(token), or_empty(keep), seen.to_string(), server.epoch.to_string()];
            Some(("release", args, i32::from(held).to_string()))
        }
        Step::Renew(token, ttl) => {
            let held = server.renew(token, ttl);
            Some(("renew", vec![text(token), ttl.to_string()], i32::from(held).to_string()))
        }
        Step::Set(holder, ttl) => {
            server.set(holder, ttl);
            match (holder, ttl) {
                (None, _) => command(&["DEL", lock]),
                (Some(Holder::NoLock), _) => command(&["HSET", lock, "field", "value"]),
                (Some(_), None) => command(&["SET", lock, FOREIGN]),
                (Some(_), Some(ttl)) => command(&["SET", lock, FOREIGN, "PX", &ttl.to_string()]),
            }
        }
        Step::DeleteQueue => {
            server.delete_queue();
            command(&["DEL", waiters])
        }
        Step::DeletePeers => {
            server.delete_peers();
            command(&["DEL", peers])
        }
        Step::Flush => {
            server.flush();
            command(&["DEL", lock, waiters, peers, fence])
        }
        Step::Unbroken(ms) => {
            server.begin();
            let since = server.now() - ms;
            server.turns.since = Some(since);
            command(&["HSET", peers, "since", &since.to_string()])
        }
        Step::Counter(last) => {
            server.begin();
            server.fence = Some(last);
            command(&["SET", fence, &last.to_string()])
        }
    }
}

fn kind_of(answer: Answer, server: &Server) -> &'static str {
    match answer {
        Answer::Granted(_) => "granted",
        Answer::Queued { .. } if server.sent.is_empty() => "queued",
        Answer::Queued { .. } => "queued behind one who got the lock",
        Answer::Busy { holder: None, .. } => "busy in a turn",
        Answer::Busy { .. } => "busy",
        Answer::NoLock => "no lock",
        Answer::NoFence => "no fence",
    }
}

/// What can be seen of a call, as `histories.lua` writes it.
fn line(reply: &str, server: &Server) -> String {
    let expiry = |exists: bool, expiry: Option<u64>| match expiry {
        Some(expiry) => expiry.to_string(),
        None if exists => "-1".to_owned(),
        None => "-2".to_owned(),
    };
    let messages = server.sent.iter().map(|&(token, message)| match message {
        Message::Held(fence) => format!("{} held {fence}", text(token)),
        Message::Free(ms) => format!("{} free {ms}", text(token)),
    });
    let holder = server.holder.map_or_else(|| "nil".to_owned(), content);
    let queue = server.queue.iter().flat_map(|&(token, place)| [text(token), place.to_string()]);
    let peers = server.peers.iter().map(|(&token, peer)| {
        format!("{}={} {} {}", text(token), peer.alive_until, peer.ttl, name(peer.inbox))
    });
    let Turns { since, turn, others } = server.turns;
    let turns = [("others", others), ("since", since), ("turn", turn)];
    let turns = turns.iter().filter_map(|(name, time)| time.map(|time| format!("{name}={time}")));
    let peers: Vec<_> = peers.chain(turns).collect();
    let peers_expiry = expiry(!peers.is_empty(), server.peers_expiry);
    let fence = server.fence.map_or_else(|| "nil".to_owned(), |fence| fence.to_string());
    list([
        reply.to_owned(),
        list(messages),
        holder,
        expiry(server.holder.is_some(), server.expiry),
        list(queue),
        expiry(!server.queue.is_empty(), server.queue_expiry),
        list(peers),
        peers_expiry,
        fence,
    ])
}

fn list(parts: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", parts.into_iter().collect::<Vec<_>>().join(" "))
}

fn text(token: Token) -> String {
    format!("0123456789ab-{token:032x}")
}

fn name(inbox: Option<Inbox>) -> String {
    inbox.map_or_else(String::new, |inbox| format!("<{inbox}>"))
}

fn or_empty(ms: Option<u64>) -> String {
    ms.map_or_else(String::new, |ms| ms.to_string())
}

fn content(holder: Holder) -> String {
    match holder {
        Holder::Token(token) => text(token),
        Holder::Foreign => FOREIGN.to_owned(),
        Holder::NoLock => "no lock".to_owned(),
    }
}

fn spell(answer: Answer) -> String {
    let time = |free_in: Option<u64>| free_in.map_or_else(|| "-1".to_owned(), |ms| ms.to_string());
    match answer {
        Answer::Granted(fence) => fence.to_string(),
        Answer::Queued { pause, free_in, last_fence } => {
            format!("[{pause} {} {last_fence}]", time(free_in))
        }
        Answer::Busy { holder, free_in } => {
            let mut holder = holder.map_or_else(|| "nil".to_owned(), content);
            holder.truncate(64);
            format!("[{holder} {}]", time(free_in))
        }
        Answer::NoLock => "[hash]".to_owned(),
        Answer::NoFence => "FENCE".to_owned(),
    }
}
