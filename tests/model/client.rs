//! One client of the lock: the production state machines, and between them what the requests, the
//! store and the watchdog do with their events.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lock_runtime::Fence;
use lock_runtime::internals::Jitter;
use lock_runtime::internals::lease::{Action, Event, LeaseState, Terms, validity};
use lock_runtime::internals::waiter::{self, Queued, Waiter};

use crate::bugs::Bug;
use crate::reference::{Answer, Message, Question, Token};

/// Time passes in steps of this length.
pub(crate) const TICK: Duration = Duration::from_micros(TICK_US);
pub(crate) const TICK_US: u64 = 50_000;

/// The instant at a tick.
pub(crate) fn at(tick: u64) -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START + TICK * u32::try_from(tick).expect("the horizon is near")
}

/// A command on its way to the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    Acquire {
        question: Question,
        /// Nobody reads the answer: it is a copy that the network made.
        copy: bool,
    },
    Renew {
        token: Token,
        ttl: u64,
        sent: u64,
    },
    Release {
        token: Token,
        keep: Option<u64>,
        seen: u64,
    },
}

impl Command {
    pub(crate) fn token(&self) -> Token {
        match *self {
            Self::Acquire { question: Question { token, .. }, .. }
            | Self::Renew { token, .. }
            | Self::Release { token, .. } => token,
        }
    }
}

/// What the server sends, and how often it had lost its data when it did.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Letter {
    pub(crate) token: Token,
    pub(crate) what: Word,
    pub(crate) flushes: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Word {
    Answer(Answer),
    Message(Message),
    Renewed { sent: u64, ours: bool },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    /// A question that was sent at this tick is open, and a message came meanwhile.
    Asking(Waiter, u64, Option<(Message, u8)>),
    Pausing(Waiter),
    Holding {
        lease: LeaseState,
        fence: u64,
        /// How often the server had lost its data when it granted the lock.
        flushes: u8,
    },
    Crashed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) name: u8,
    pub(crate) attempts: u8,
    pub(crate) phase: Phase,
    /// What it has sent, and the server has not executed.
    pub(crate) line: VecDeque<Command>,
    /// What the server has sent, and it has not read.
    pub(crate) unread: VecDeque<Letter>,
    /// It does nothing on time.
    pub(crate) stopped: bool,
    /// The greatest fence that it has seen on its connection.
    seen: u64,
}

/// What all clients have in common.
#[derive(Debug, Clone)]
pub(crate) struct Habits {
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    /// How long each waits; none: for ever.
    pub(crate) wait: [Option<Duration>; 3],
    /// For how long a holder leaves the key behind.
    pub(crate) keep: Option<u64>,
    /// Nobody has an inbox.
    pub(crate) deaf: bool,
    pub(crate) bug: Option<Bug>,
}

impl Habits {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn ttl_ms(&self) -> u64 {
        millis(self.ttl)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).expect("durations are short")
}

impl Client {
    pub(crate) fn new(name: u8, attempts: u8) -> Self {
        let (line, unread) = Default::default();
        Self { name, attempts, phase: Phase::Idle, line, unread, stopped: false, seen: 0 }
    }

    /// Each attempt has its own.
    pub(crate) fn token(&self) -> Token {
        self.name * 16 + self.attempts
    }

    /// Whose attempt it is.
    pub(crate) fn of(token: Token) -> usize {
        usize::from(token / 16)
    }

    /// Whether the token matters to it.
    pub(crate) fn uses(&self, token: Token) -> bool {
        let open = !matches!(self.phase, Phase::Idle | Phase::Crashed);
        open && self.token() == token
    }

    /// Whether it believes, at a tick, that it holds the lock, and had been promised so.
    pub(crate) fn holds(&self, tick: u64, flushes: u8) -> bool {
        match &self.phase {
            Phase::Holding { lease, flushes: promised, .. } => {
                *promised == flushes && !lease.remaining(at(tick)).is_zero()
            }
            _ => false,
        }
    }

    /// Whether it is time for it to do something.
    pub(crate) fn is_due(&self, tick: u64) -> bool {
        match &self.phase {
            Phase::Pausing(waiter) => waiter.poll_at() <= at(tick),
            Phase::Holding { lease, .. } => lease.next_tick().is_some_and(|next| next <= at(tick)),
            Phase::Idle | Phase::Asking(..) | Phase::Crashed => false,
        }
    }

    pub(crate) fn start(&mut self, tick: u64, habits: &Habits) {
        self.attempts -= 1;
        let wait = habits.wait[usize::from(self.name)];
        let wait_until = wait.map(|wait| at(tick) + wait);
        self.ask(Waiter::new(habits.ttl, wait_until, true, at(tick), Jitter::new(0)), tick, habits);
    }

    fn ask(&mut self, waiter: Waiter, tick: u64, habits: &Habits) {
        let waits = waiter.may_queue(at(tick));
        let question = Question {
            token: self.token(),
            ttl: habits.ttl_ms(),
            pause: waits.then(|| millis(waiter.poll_interval())),
            inbox: (waits && !habits.deaf).then_some(self.name),
            seen: self.seen,
        };
        self.line.push_back(Command::Acquire { question, copy: false });
        self.phase = Phase::Asking(waiter, tick, None);
    }

    /// Does what is due.
    pub(crate) fn act(&mut self, tick: u64, habits: &Habits) {
        self.stopped = false;
        match &mut self.phase {
            Phase::Pausing(waiter) => {
                let waiter = waiter.clone();
                self.ask(waiter, tick, habits);
            }
            Phase::Holding { lease, .. } => match lease.step(Event::Tick, at(tick)) {
                Action::Renew => {
                    let (token, ttl) = (self.token(), habits.ttl_ms());
                    self.line.push_back(Command::Renew { token, ttl, sent: tick });
                }
                Action::Stop(_) => self.give_back(None),
                Action::Nothing => {}
            },
            Phase::Idle | Phase::Asking(..) | Phase::Crashed => {}
        }
    }

    /// The holder is done, or whoever waits goes away.
    pub(crate) fn end(&mut self, tick: u64, habits: &Habits) {
        match &mut self.phase {
            Phase::Holding { lease, .. } => {
                let keep = match lease.step(Event::Release, at(tick)) {
                    Action::Stop(_) => None,
                    Action::Nothing | Action::Renew => habits.keep,
                };
                self.give_back(keep);
            }
            _ if habits.has(Bug::NothingCleanedUp) => self.phase = Phase::Idle,
            _ => self.give_back(None),
        }
    }

    fn give_back(&mut self, keep: Option<u64>) {
        self.line.push_back(Command::Release { token: self.token(), keep, seen: self.seen });
        self.phase = Phase::Idle;
        self.unread.clear(); // nothing in it is for a later attempt
    }

    /// The connection is lost, and with it what was not read.
    pub(crate) fn cut(&mut self, tick: u64, habits: &Habits) {
        self.unread.clear();
        self.seen = 0;
        match &mut self.phase {
            Phase::Asking(..) => self.end(tick, habits),
            Phase::Pausing(waiter) => {
                waiter.receive(waiter::Message::Disconnected, at(tick));
            }
            Phase::Holding { lease, .. } if lease.renewal_in_flight() => {
                lease.step(Event::RenewalFailed, at(tick));
            }
            Phase::Holding { .. } | Phase::Idle | Phase::Crashed => {}
        }
    }

    /// The answer to a renewal that was sent at a tick will not come.
    pub(crate) fn renewal_failed(&mut self, token: Token, sent: u64, tick: u64, habits: &Habits) {
        let known = if habits.has(Bug::UnknownIsRenewed) {
            Event::Renewed { sent: at(sent) }
        } else {
            Event::RenewalFailed
        };
        self.renewal(token, known, tick);
    }

    fn renewal(&mut self, token: Token, event: Event, tick: u64) {
        let ours = self.token() == token;
        if let Phase::Holding { lease, .. } = &mut self.phase
            && ours
            && let Action::Stop(_) = lease.step(event, at(tick))
        {
            self.give_back(None);
        }
    }

    pub(crate) fn read(&mut self, letter: Letter, tick: u64, habits: &Habits) {
        let Letter { token, what, flushes } = letter;
        if !self.uses(token) {
            return;
        }
        match what {
            Word::Answer(answer) => self.answered(answer, flushes, tick, habits),
            Word::Message(message) => self.told(message, flushes, tick, habits),
            Word::Renewed { sent, ours } => {
                let event = if ours { Event::Renewed { sent: at(sent) } } else { Event::NotOurs };
                self.renewal(token, event, tick);
            }
        }
    }

    fn answered(&mut self, answer: Answer, flushes: u8, tick: u64, habits: &Habits) {
        let Phase::Asking(waiter, sent, unread) = &mut self.phase else {
            return;
        };
        let (sent, unread) = (*sent, unread.take());
        if let Answer::Granted(fence) | Answer::Queued { last_fence: fence, .. } = answer {
            self.seen = self.seen.max(fence);
        }
        match answer {
            Answer::Granted(fence) => self.granted(at(sent), fence, flushes, tick, habits),
            Answer::Queued { pause, free_in, last_fence } => {
                let answer = Queued {
                    poll_in: Duration::from_millis(pause),
                    free_in: free_in.map(Duration::from_millis),
                    last_fence: Fence::new(last_fence),
                };
                waiter.queued(at(sent), answer, at(tick));
                self.phase = Phase::Pausing(waiter.clone());
                if let Some((message, flushes)) = unread {
                    self.told(message, flushes, tick, habits);
                }
            }
            Answer::Busy { .. } | Answer::NoLock | Answer::NoFence => self.phase = Phase::Idle,
        }
    }

    fn told(&mut self, message: Message, flushes: u8, tick: u64, habits: &Habits) {
        match &mut self.phase {
            Phase::Asking(_, _, unread) => *unread = Some((message, flushes)),
            Phase::Pausing(waiter) => {
                let told = match message {
                    Message::Held(fence) => {
                        let credulous = habits.has(Bug::OldMessageBelieved);
                        waiter::Message::Held(Fence::new(if credulous { u64::MAX } else { fence }))
                    }
                    Message::Free(ms) => waiter::Message::Free(Duration::from_millis(ms)),
                };
                let told = waiter.receive(told, at(tick));
                if let (Some((sent, _)), Message::Held(fence)) = (told, message) {
                    self.granted(sent, fence, flushes, tick, habits);
                }
            }
            Phase::Idle | Phase::Holding { .. } | Phase::Crashed => {}
        }
    }

    fn granted(&mut self, sent: Instant, fence: u64, flushes: u8, tick: u64, habits: &Habits) {
        let sent = if habits.has(Bug::LeaseFromAnswer) { at(tick) } else { sent };
        let Habits { ttl, renew, .. } = *habits;
        if at(tick) - sent >= validity(ttl) {
            return self.give_back(None);
        }
        let terms = Terms { ttl, renew, max_hold: None, min_hold: Duration::ZERO };
        let lease = LeaseState::granted(terms, sent, 1);
        self.phase = Phase::Holding { lease, fence, flushes };
    }
}
