//! Some clients, a server between them that does what the reference says, and what can go wrong.

use std::time::Duration;

use stateright::{Model, Property};

use crate::bugs;
use crate::client::{Client, Command, Habits, Letter, Phase, TICK, TICK_US, Word};
use crate::reference::{Holder, Message, Server, Token};

/// Milliseconds before the model's first tick.
const EPOCH: u64 = 1_000_000;
/// Commands that a client has on their way at most.
const LONGEST_LINE: usize = 3;

#[derive(Debug, Clone)]
pub(crate) struct World {
    /// How often each client asks for the lock.
    pub(crate) attempts: &'static [u8],
    pub(crate) habits: Habits,
    /// The last tick.
    pub(crate) horizon: u64,
    /// How often something may go wrong, and what.
    pub(crate) faults: u8,
    pub(crate) kinds: &'static [Fault],
    /// Whether the lock has been handed over without end for long.
    pub(crate) unbroken: bool,
    /// For how many ticks a free lock may be left alone by those who wait, and how long while
    /// nothing has gone wrong.
    pub(crate) idle: [u64; 2],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) tick: u64,
    server: Server,
    pub(crate) clients: Vec<Client>,
    /// How much has gone wrong.
    faults: u8,
    /// How often the server has lost its data.
    flushes: u8,
    /// The greatest fence that a holder has had.
    fence: u64,
    /// For how many ticks the lock was free while somebody waited and nothing was on its way.
    idle: u64,
    /// For how many ticks the lock has belonged to nobody.
    orphan: u16,
    seen: Seen,
}

/// What is not visible in a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each of them is for one property")]
struct Seen {
    fence_fell: bool,
    handed_to_the_dead: bool,
    overtaken: bool,
    handed_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    Start(usize),
    Act(usize),
    /// The holder is done, or whoever waits gives up.
    End(usize),
    Execute(usize),
    Read(usize),
    Fault(Fault, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Crash,
    /// The process stands still until anything wakes it.
    Stop,
    /// The connection is lost; what was sent is executed later.
    Cut,
    LoseCommand,
    LoseLetter,
    /// A command is executed twice.
    Copy,
    /// A command is executed after the next one.
    Overtake,
    /// The server loses its data.
    Flush,
}

impl Fault {
    pub(crate) const ALL: &[Self] = &[
        Self::Crash,
        Self::Stop,
        Self::Cut,
        Self::LoseCommand,
        Self::LoseLetter,
        Self::Copy,
        Self::Overtake,
        Self::Flush,
    ];
}

impl State {
    fn holder(&self) -> Option<Token> {
        match self.server.holder {
            Some(Holder::Token(token)) => Some(token),
            _ => None,
        }
    }

    /// Whether nobody uses the token, and no command on its way will.
    fn is_orphan(&self, token: Token) -> bool {
        let sent = |client: &Client| client.line.iter().any(|command| command.token() == token);
        !self.clients[Client::of(token)].uses(token) && !self.clients.iter().any(sent)
    }

    /// Whether nothing is on its way.
    fn is_quiet(&self) -> bool {
        self.clients.iter().all(|client| client.line.is_empty() && client.unread.is_empty())
    }

    fn holders(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(|client| client.holds(self.tick, self.flushes))
    }

    fn can(&self, fault: Fault, client: usize) -> bool {
        let Client { phase, line, unread, stopped, .. } = &self.clients[client];
        let crashed = *phase == Phase::Crashed;
        match fault {
            Fault::Crash | Fault::Cut => !crashed && *phase != Phase::Idle,
            Fault::Stop => !stopped && matches!(phase, Phase::Pausing(_) | Phase::Holding { .. }),
            Fault::LoseCommand => !line.is_empty(),
            Fault::LoseLetter => !unread.is_empty(),
            Fault::Copy => !line.is_empty() && line.len() < LONGEST_LINE,
            Fault::Overtake => line.len() > 1,
            Fault::Flush => client == 0,
        }
    }

    fn suffer(&mut self, fault: Fault, number: usize, habits: &Habits) {
        self.faults += 1;
        let tick = self.tick;
        let client = &mut self.clients[number];
        match fault {
            Fault::Crash => {
                client.phase = Phase::Crashed;
                client.unread.clear();
                self.server.connected.remove(&client.name);
            }
            Fault::Stop => client.stopped = true,
            Fault::Cut => {
                client.cut(tick, habits);
                self.server.connected.remove(&client.name);
            }
            Fault::LoseCommand => match client.line.pop_front() {
                // It is sent until it is answered.
                Some(command @ Command::Release { .. }) => client.line.push_back(command),
                Some(Command::Renew { token, sent, .. }) => {
                    client.renewal_failed(token, sent, tick, habits);
                }
                Some(Command::Acquire { .. }) | None => {}
            },
            Fault::LoseLetter => {
                let lost = client.unread.pop_front();
                if let Some(Letter { token, what: Word::Renewed { sent, .. }, .. }) = lost {
                    client.renewal_failed(token, sent, tick, habits);
                }
            }
            Fault::Copy => {
                if let Some(mut copy) = client.line.front().cloned() {
                    if let Command::Acquire { copy, .. } = &mut copy {
                        *copy = true;
                    }
                    client.line.push_back(copy);
                }
            }
            Fault::Overtake => client.line.swap(0, 1),
            Fault::Flush => {
                self.flushes += 1;
                self.server.flush();
                self.set_clock();
            }
        }
    }

    /// The server's clock does not stand still while it loses its data.
    fn set_clock(&mut self) {
        let us = EPOCH * 1_000 + self.tick * TICK_US;
        self.server.now_us = us + 100 * u64::from(self.flushes);
    }

    fn execute(&mut self, number: usize, habits: &Habits) {
        let client = &mut self.clients[number];
        let Some(command) = client.line.pop_front() else {
            return;
        };
        // A line that was lost is replaced before the next question is sent, and listens again.
        let asks = matches!(command, Command::Acquire { copy: false, .. });
        if asks && client.phase != Phase::Crashed {
            self.server.connected.insert(client.name);
        }
        self.server.begin();
        let before = self.server.clone();
        let answer = bugs::execute(&mut self.server, &command, habits.bug);
        let flushes = self.flushes;
        for (token, message) in std::mem::take(&mut self.server.sent) {
            let receiver = &mut self.clients[Client::of(token)];
            let gone = receiver.phase == Phase::Crashed;
            self.seen.handed_to_the_dead |= gone && matches!(message, Message::Held(_));
            if receiver.uses(token) {
                let what = Word::Message(message);
                receiver.unread.push_back(Letter { token, what, flushes });
            }
        }
        let token = command.token();
        let client = &mut self.clients[number];
        let is_copy = matches!(command, Command::Acquire { copy: true, .. });
        if let Some(what) = answer
            && !is_copy
            && client.uses(token)
        {
            client.unread.push_back(Letter { token, what, flushes });
        }
        if let Some(Holder::Token(new)) = self.server.holder
            && before.holder != self.server.holder
        {
            let mut ahead = before.queue.iter().take_while(|(token, _)| *token != new);
            self.seen.overtaken |= ahead.any(|(token, _)| {
                before.peers.get(token).is_some_and(|peer| before.is_alive(peer))
            });
        }
    }

    /// Takes note of a client that has just become the holder.
    fn note_holder(&mut self, number: usize, held_before: bool) {
        let client = &self.clients[number];
        if let Phase::Holding { fence, .. } = client.phase
            && !held_before
            && client.holds(self.tick, self.flushes)
        {
            self.seen.fence_fell |= fence <= self.fence;
            self.fence = fence;
        }
    }

    fn pass(&mut self) {
        self.tick += 1;
        self.set_clock();
        self.server.begin();
        let waits = |client: &Client| matches!(client.phase, Phase::Pausing(_)) && !client.stopped;
        let left_alone =
            self.is_quiet() && self.server.holder.is_none() && self.clients.iter().any(waits);
        self.idle = if left_alone { self.idle + 1 } else { 0 };
        let orphan = self.holder().is_some_and(|token| self.is_orphan(token));
        self.orphan = if orphan { self.orphan + 1 } else { 0 };
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let attempts = (0..).zip(self.attempts);
        let clients: Vec<_> = attempts.map(|(name, &count)| Client::new(name, count)).collect();
        let connected = clients.iter().map(|client| client.name).collect();
        let mut state = State {
            tick: 0,
            server: Server { connected, ..Server::default() },
            clients,
            faults: 0,
            flushes: 0,
            fence: 0,
            idle: 0,
            orphan: 0,
            seen: Seen::default(),
        };
        state.set_clock();
        if self.unbroken {
            state.server.turns.since = Some(EPOCH - 6_000);
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let State { tick, ref clients, .. } = *state;
        let in_time = |client: &Client| client.stopped || !client.is_due(tick);
        if tick < self.horizon && clients.iter().all(in_time) {
            steps.push(Step::Tick);
        }
        for (number, client) in clients.iter().enumerate() {
            let room = client.line.len() < LONGEST_LINE;
            if client.phase == Phase::Idle && client.attempts > 0 && room {
                steps.push(Step::Start(number));
            }
            if client.is_due(tick) && room {
                steps.push(Step::Act(number));
            }
            if !matches!(client.phase, Phase::Idle | Phase::Crashed) && room {
                steps.push(Step::End(number));
            }
            if !client.line.is_empty() {
                steps.push(Step::Execute(number));
            }
            if !client.unread.is_empty() {
                steps.push(Step::Read(number));
            }
            if state.faults < self.faults {
                let kinds = self.kinds.iter().filter(|kind| state.can(**kind, number));
                steps.extend(kinds.map(|&kind| Step::Fault(kind, number)));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut state = state.clone();
        let State { tick, ref mut clients, .. } = state;
        match step {
            Step::Tick => state.pass(),
            Step::Start(number) => clients[number].start(tick, &self.habits),
            Step::Act(number) => clients[number].act(tick, &self.habits),
            Step::End(number) => clients[number].end(tick, &self.habits),
            Step::Execute(number) => state.execute(number, &self.habits),
            Step::Read(number) => {
                let client = &mut clients[number];
                let held = matches!(client.phase, Phase::Holding { .. });
                if let Some(letter) = client.unread.pop_front() {
                    let handed_over = matches!(letter.what, Word::Message(Message::Held(_)));
                    client.read(letter, tick, &self.habits);
                    let holds = matches!(client.phase, Phase::Holding { .. });
                    state.seen.handed_over |= handed_over && holds;
                }
                state.note_holder(number, held);
            }
            Step::Fault(fault, number) => state.suffer(fault, number, &self.habits),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one holder", |_, state: &State| state.holders().count() <= 1),
            Property::always("fences grow", |_, state: &State| !state.seen.fence_fell),
            Property::always("first come, first served", |_, state: &State| !state.seen.overtaken),
            Property::always("handed over to the living", |_, state: &State| {
                !state.seen.handed_to_the_dead
            }),
            Property::always("nothing is left behind", |world, state: &State| {
                let holder = state.holder().filter(|_| world.habits.keep.is_none());
                let places = state.server.queue.iter().map(|&(token, _)| token);
                let mut tokens = holder.into_iter().chain(places);
                state.faults > 0 || !tokens.any(|token| state.is_orphan(token))
            }),
            Property::always("what is left expires", |world, state: &State| {
                TICK * u32::from(state.orphan) <= world.habits.ttl + TICK
            }),
            Property::always("who waits gets a free lock", |world, state: &State| {
                state.idle <= world.idle[usize::from(state.faults == 0)]
            }),
            Property::sometimes("handed over", |_, state: &State| state.seen.handed_over),
        ]
    }
}

impl World {
    /// Clients that ask so often, for leases that expire in the fourth tick.
    pub(crate) fn new(attempts: &'static [u8], horizon: u64, faults: u8) -> Self {
        let habits = Habits {
            ttl: Duration::from_millis(150),
            renew: false,
            wait: [None; 3],
            keep: None,
            deaf: false,
            bug: None,
        };
        let (kinds, unbroken, idle) = (Fault::ALL, false, [2, 2]);
        Self { attempts, habits, horizon, faults, kinds, unbroken, idle }
    }
}
