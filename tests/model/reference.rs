//! What the scripts do to the keys of one lock, in plain Rust: the specification of the queue.
//!
//! The order of statements matters in Lua only where a server may fail half way, so this says what
//! happens, and the scripts how. Times and durations are in milliseconds unless they end in `us`.

use std::collections::{BTreeMap, BTreeSet};

/// For how long a queue is kept in which nobody asks.
const KEEP_QUEUE: u64 = 60_000;
/// The turn of clients that do not queue.
const TURN: u64 = 100;
/// How often the first in the queue looks meanwhile whether there is one.
const TURN_POLL: u64 = 10;
/// How long the lock is handed over without end before it is their turn, while they are around and
/// while they are not.
const UNBROKEN: [u64; 2] = [1_000, 5_000];
/// How long a client that does not queue is remembered.
const AROUND: u64 = 10_000;
/// How far an epoch puts fences forward, in microseconds.
const DAY: u64 = 86_400_000_000;
/// How long the first in the queue pauses when nobody will send a message.
const DEAF_PAUSE: u64 = 100;
/// What follows is not exact as a double, which all numbers of Lua are.
pub(crate) const LAST_FENCE: u64 = (1 << 53) - 1;

/// One attempt to take the lock.
pub(crate) type Token = u8;
/// The channel on which a client listens.
pub(crate) type Inbox = u8;

/// What the lock's key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    Token(Token),
    /// A client that does not queue.
    Foreign,
    /// A value that is no string.
    NoLock,
}

/// The keys of one lock, and what else the scripts can see.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) now_us: u64,
    /// The number of the failover by which it took its place.
    pub(crate) epoch: u64,
    pub(crate) holder: Option<Holder>,
    /// When the lock's key expires; none: never.
    pub(crate) expiry: Option<u64>,
    /// Who waits, with the numbers of their arrival.
    pub(crate) queue: Vec<(Token, u64)>,
    pub(crate) queue_expiry: Option<u64>,
    /// What is known of those who wait.
    pub(crate) peers: BTreeMap<Token, Peer>,
    pub(crate) turns: Turns,
    /// When the key of peers and turns expires.
    pub(crate) peers_expiry: Option<u64>,
    pub(crate) fence: Option<u64>,
    /// Which inboxes a client is connected to.
    pub(crate) connected: BTreeSet<Inbox>,
    /// The messages that the last call has sent.
    pub(crate) sent: Vec<(Token, Message)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    pub(crate) alive_until: u64,
    pub(crate) ttl: u64,
    pub(crate) inbox: Option<Inbox>,
}

/// What is known of clients that do not queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Turns {
    /// Since when the lock has been handed over without end.
    pub(crate) since: Option<u64>,
    /// When their turn is over.
    pub(crate) turn: Option<u64>,
    /// Until when they are around.
    pub(crate) others: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    Held(u64),
    Free(u64),
}

/// A question: take the lock, or a place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) token: Token,
    pub(crate) ttl: u64,
    /// How long the first in the queue pauses; none: leave the queue.
    pub(crate) pause: Option<u64>,
    pub(crate) inbox: Option<Inbox>,
    /// The last fence that was seen on the connection.
    pub(crate) seen: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Granted(u64),
    Queued {
        pause: u64,
        free_in: Option<u64>,
        last_fence: u64,
    },
    Busy {
        holder: Option<Holder>,
        free_in: Option<u64>,
    },
    NoLock,
    /// The counter has come to its end.
    NoFence,
}

impl Server {
    pub(crate) fn acquire(&mut self, question: Question) -> Answer {
        self.begin();
        let Question { token, ttl, pause, inbox, seen } = question;
        if self.holder == Some(Holder::NoLock) {
            return Answer::NoLock;
        }
        let holds = self.holder == Some(Holder::Token(token));
        if pause.is_none() && self.holder.is_some() && !holds {
            return self.busy(token, 0);
        }
        let Some(fence) = self.next_fence(seen) else {
            return Answer::NoFence;
        };
        if holds {
            self.grant(token, ttl);
            return Answer::Granted(fence);
        }
        let turn = self.turn();
        if self.holder.is_none() && turn == 0 {
            match self.pop_live_waiter(Some(token), Message::Held(fence)) {
                Some((first, peer)) if first.0 != token => self.grant(first.0, peer.ttl),
                _ => {
                    self.grant(token, ttl);
                    return Answer::Granted(fence);
                }
            }
        }
        let Some(pause) = pause else {
            return self.busy(token, turn);
        };
        let foreign = self.holder == Some(Holder::Foreign);
        let pause = if foreign || inbox.is_none() { DEAF_PAUSE } else { pause };
        let joins = self.queue.iter().all(|&(other, _)| other != token);
        if joins {
            self.queue.push((token, fence));
            self.queue.sort_by_key(|&(token, arrival)| (arrival, token));
        }
        let rank = self.queue.iter().take_while(|&&(other, _)| other != token).count() as u64;
        let pause = (pause * (16 + rank) / 16).min(pause * 5);
        self.peers.insert(token, Peer { alive_until: self.now() + 3 * pause, ttl, inbox });
        if foreign {
            self.turns.others = Some(self.now() + AROUND);
        }
        if !joins || rank == 0 {
            self.keep_queue();
        }
        Answer::Queued { pause, free_in: self.free_in(turn), last_fence: fence }
    }

    fn busy(&mut self, token: Token, turn: u64) -> Answer {
        self.leave(token, turn.min(TURN_POLL));
        Answer::Busy { holder: self.holder, free_in: self.free_in(turn) }
    }

    fn free_in(&self, turn: u64) -> Option<u64> {
        match self.holder {
            Some(_) => self.expiry.map(|expiry| expiry - self.now()),
            None => Some(turn.min(TURN_POLL)),
        }
    }

    /// Whether the token held the lock. `seen` is the last fence that was seen on the connection.
    pub(crate) fn release(&mut self, token: Token, keep: Option<u64>, seen: u64) -> bool {
        self.begin();
        if self.holder != Some(Holder::Token(token)) {
            self.leave(token, 0);
            return false;
        }
        if let Some(keep) = keep {
            self.expiry = Some(self.now() + keep);
            self.announce(keep);
            return true;
        }
        let Turns { since, others, .. } = self.turns;
        let around = others.is_some_and(|until| until > self.now());
        let unbroken = UNBROKEN[usize::from(!around)];
        let long = since.is_some_and(|since| self.now() >= since + unbroken);
        if long && !self.queue.is_empty() {
            let end = Some(self.now() + TURN);
            self.turns = Turns { since: end, turn: end, others };
            self.free();
            self.announce(TURN_POLL);
            return true;
        }
        // Without anybody in the queue, and anything known of one, nobody takes a number.
        let queue =
            !self.queue.is_empty() || !self.peers.is_empty() || self.turns != Turns::default();
        let fence = if queue { self.next_fence(seen) } else { None };
        let first = fence.and_then(|fence| self.pop_live_waiter(None, Message::Held(fence)));
        if let Some(((first, _), peer)) = first {
            self.grant(first, peer.ttl);
            if since.is_none_or(|since| since > self.now()) {
                self.turns.since = Some(self.now());
                self.keep_queue();
            }
        } else {
            self.free();
            self.turns = Turns::default();
            self.tidy();
        }
        true
    }

    /// Whether the token holds the lock.
    pub(crate) fn renew(&mut self, token: Token, ttl: u64) -> bool {
        self.begin();
        let ours = self.holder == Some(Holder::Token(token));
        if ours {
            self.expiry = Some(self.now() + ttl);
        }
        ours
    }

    /// What anybody may do to the lock's key.
    pub(crate) fn set(&mut self, holder: Option<Holder>, ttl: Option<u64>) {
        self.begin();
        self.holder = holder;
        self.expiry = ttl.map(|ttl| self.now() + ttl);
    }

    pub(crate) fn delete_queue(&mut self) {
        self.begin();
        self.queue.clear();
        self.tidy();
    }

    pub(crate) fn delete_peers(&mut self) {
        self.begin();
        self.peers.clear();
        self.turns = Turns::default();
        self.tidy();
    }

    pub(crate) fn flush(&mut self) {
        let Self { now_us, epoch, ref mut connected, .. } = *self;
        *self = Self { now_us, epoch, connected: std::mem::take(connected), ..Self::default() };
    }

    pub(crate) fn now(&self) -> u64 {
        self.now_us / 1_000
    }

    /// Keys expire on their own, and each call has its own messages.
    pub(crate) fn begin(&mut self) {
        self.sent.clear();
        let now = self.now();
        let is_over = |expiry: Option<u64>| expiry.is_some_and(|expiry| now > expiry);
        if is_over(self.expiry) {
            self.free();
        }
        if is_over(self.queue_expiry) {
            self.queue.clear();
        }
        if is_over(self.peers_expiry) {
            self.peers.clear();
            self.turns = Turns::default();
        }
        self.tidy();
    }

    fn next_fence(&mut self, seen: u64) -> Option<u64> {
        let next = self.fence.unwrap_or(0) + 1;
        if next > LAST_FENCE {
            return None;
        }
        let loss_is_possible = seen == 0 || next <= seen;
        let time = self.now_us + self.epoch * DAY;
        self.fence = Some(if loss_is_possible { next.max(time) } else { next });
        self.fence
    }

    /// For how long the lock, if it is free, is left to clients that do not queue.
    fn turn(&self) -> u64 {
        let left = self.turns.turn.and_then(|turn| turn.checked_sub(self.now()));
        let left = left.filter(|&left| left <= TURN);
        left.filter(|_| self.holder.is_none() && !self.queue.is_empty()).unwrap_or(0)
    }

    fn grant(&mut self, token: Token, ttl: u64) {
        self.holder = Some(Holder::Token(token));
        self.expiry = Some(self.now() + ttl);
    }

    fn free(&mut self) {
        self.holder = None;
        self.expiry = None;
    }

    /// Takes the first one who is alive out of the queue, and the dead before him.
    fn pop_live_waiter(
        &mut self,
        asker: Option<Token>,
        message: Message,
    ) -> Option<((Token, u64), Peer)> {
        let mut next = None;
        while next.is_none() && !self.queue.is_empty() {
            let place = self.queue.remove(0);
            let peer = self.peers.remove(&place.0);
            if asker == Some(place.0) {
                next = Some((place, Peer { alive_until: 0, ttl: 0, inbox: None }));
            } else if let Some(peer) = peer.filter(|peer| self.is_alive(peer)) {
                if peer.inbox.is_some() {
                    self.sent.push((place.0, message));
                }
                next = Some((place, peer));
            }
        }
        self.tidy();
        next
    }

    /// Who has asked lately and, if he has an inbox, is connected to it.
    pub(crate) fn is_alive(&self, peer: &Peer) -> bool {
        let connected = peer.inbox.is_none_or(|inbox| self.connected.contains(&inbox));
        connected && peer.alive_until * 1_000 > self.now_us
    }

    /// Has the first in the queue ask when the lock is free, in `ms`.
    fn announce(&mut self, ms: u64) {
        if let Some((place, peer)) = self.pop_live_waiter(None, Message::Free(ms)) {
            self.queue.insert(0, place);
            self.peers.insert(place.0, peer);
            self.keep_queue();
        }
    }

    /// Leaves the queue; if the lock is free, or is in `ms`, the next one is told.
    fn leave(&mut self, token: Token, ms: u64) {
        let before = self.queue.len();
        self.queue.retain(|&(other, _)| other != token);
        if self.queue.len() < before {
            self.peers.remove(&token);
            if self.holder.is_none() {
                self.announce(ms);
            }
        }
        self.tidy();
    }

    fn keep_queue(&mut self) {
        let expiry = Some(self.now() + KEEP_QUEUE);
        self.queue_expiry = expiry;
        self.peers_expiry = expiry;
        self.tidy();
    }

    /// A key that holds nothing is gone, and its expiry with it.
    fn tidy(&mut self) {
        if self.queue.is_empty() {
            self.queue_expiry = None;
        }
        if self.peers.is_empty() && self.turns == Turns::default() {
            self.peers_expiry = None;
        }
    }
}
