//! Some clients, the servers that vote, and the messages between them, which arrive in any order, late or
//! never.

use std::collections::BTreeSet;

use lock_runtime::internals::quorum::{Action, Event, Round};
use stateright::{Model, Property};

const NODES: usize = 3;
/// What the servers have counted before: each its own locks.
const COUNTED: [u64; NODES] = [0, 2, 1];

/// Mistakes that the model has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A server confirms without a look at the owner.
    OwnerUnseen,
    /// The fence is above the number of the server that has granted first.
    OneNumber,
    /// A late vote is confirmed, whatever its number is.
    LateNumber,
    /// One server is taken for two.
    TwoVotes,
    /// So many servers less one are enough.
    Half,
    /// All rounds of a client have the same token.
    SameToken,
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    /// How often each client asks for the lock.
    pub(crate) attempts: &'static [u8],
    /// Whether servers lose the lock at any time: their clocks jump.
    pub(crate) forget: bool,
    /// How often a server restarts without lock and counter, and votes on.
    pub(crate) restarts: u8,
    /// How often a server grants other locks, which share the counter.
    pub(crate) others: u8,
    pub(crate) bug: Option<Bug>,
}

/// One attempt of one client.
type Token = u8;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    nodes: [Node; NODES],
    clients: Vec<Client>,
    /// What is on its way.
    messages: BTreeSet<Message>,
    restarts: u8,
    others: u8,
    /// The fences of all grants.
    fences: BTreeSet<u64>,
    seen: Seen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    holder: Option<Token>,
    counter: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Client {
    attempts: u8,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Voting {
        round: Round,
        /// The greatest fence that was granted before.
        before: Option<u64>,
        /// The first number that was granted, for a mistake.
        first: Option<u64>,
        /// Whether a fence was chosen, for another one.
        is_late: bool,
    },
    Holding,
}

/// What is not visible in a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Seen {
    fence_twice: bool,
    fence_fell: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Message {
    node: usize,
    token: Token,
    what: Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Word {
    Take,
    Confirm(u64),
    Release,
    Granted(u64),
    Confirmed,
    Lost,
}

impl Word {
    fn is_answer(self) -> bool {
        matches!(self, Self::Granted(_) | Self::Confirmed | Self::Lost)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Begin(usize),
    Arrive(Message),
    /// The time for answers is over.
    Deadline(usize),
    Release(usize),
    Forget(usize),
    Restart(usize),
    OtherLock(usize),
}

impl Node {
    fn execute(&mut self, token: Token, what: Word, bug: Option<Bug>) -> Option<Word> {
        let owned = self.holder == Some(token);
        match what {
            Word::Take if owned || self.holder.is_none() => {
                self.counter += 1;
                self.holder = Some(token);
                Some(Word::Granted(self.counter))
            }
            Word::Confirm(fence) if owned || bug == Some(Bug::OwnerUnseen) => {
                self.counter = self.counter.max(fence);
                Some(Word::Confirmed)
            }
            Word::Release => {
                self.holder = self.holder.filter(|holder| *holder != token);
                None
            }
            _ => Some(Word::Lost),
        }
    }
}

impl World {
    pub(crate) fn new(attempts: &'static [u8]) -> Self {
        Self { attempts, forget: false, restarts: 0, others: 0, bug: None }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Each attempt has its own.
    fn token(&self, client: usize, attempts: u8) -> Token {
        let attempt = if self.has(Bug::SameToken) { 0 } else { attempts };
        u8::try_from(client).expect("there are few") * 16 + attempt
    }

    fn begin(&self, state: &mut State, client: usize) {
        let before = state.fences.last().copied();
        let asked = &mut state.clients[client];
        asked.attempts -= 1;
        asked.phase =
            Phase::Voting { round: Round::new(NODES), before, first: None, is_late: false };
        let token = self.token(client, asked.attempts);
        state.send(token, Word::Take);
    }

    /// A client gives back what it has, wherever that may be.
    fn give_back(&self, state: &mut State, client: usize) {
        let token = self.token(client, state.clients[client].attempts);
        state.clients[client].phase = Phase::Idle;
        state.send(token, Word::Release);
    }

    fn arrive(&self, state: &mut State, message: Message) {
        let Message { node, token, what } = message;
        state.messages.remove(&message);
        if what.is_answer() {
            return self.answered(state, message);
        }
        if let Some(what) = state.nodes[node].execute(token, what, self.bug) {
            state.messages.insert(Message { node, token, what });
        }
    }

    fn answered(&self, state: &mut State, Message { node, token, what }: Message) {
        let client = usize::from(token / 16);
        let event = match what {
            Word::Granted(number) => Event::Granted { node, number },
            Word::Confirmed => Event::Confirmed { node },
            _ => Event::Lost { node },
        };
        let Phase::Voting { first, is_late, .. } = &mut state.clients[client].phase else { return };
        if let Word::Granted(number) = what
            && self.has(Bug::OneNumber)
        {
            first.get_or_insert(number);
        }
        let event = match event {
            Event::Granted { node, .. } if self.has(Bug::LateNumber) && *is_late => {
                Event::Granted { node, number: 0 }
            }
            event => event,
        };
        self.step(state, client, event);
        let double = self.has(Bug::TwoVotes) && node == 0 || self.has(Bug::Half);
        if double {
            let node = (node + 1) % NODES;
            match event {
                Event::Granted { number, .. } => {
                    self.step(state, client, Event::Granted { node, number });
                }
                Event::Confirmed { .. } => self.step(state, client, Event::Confirmed { node }),
                _ => {}
            }
        }
    }

    fn step(&self, state: &mut State, client: usize, event: Event) {
        let Phase::Voting { round, before, first, is_late } = &mut state.clients[client].phase
        else {
            return;
        };
        let (before, first) = (*before, *first);
        let actions = round.step(event);
        *is_late |= self.has(Bug::LateNumber) && !actions.is_empty();
        let chosen = |fence| match first {
            Some(first) if self.has(Bug::OneNumber) => first + 1,
            _ => fence,
        };
        for action in actions {
            match action {
                Action::Confirm { node, fence } => {
                    let token = self.token(client, state.clients[client].attempts);
                    let what = Word::Confirm(chosen(fence));
                    state.messages.insert(Message { node, token, what });
                }
                Action::Win { fence } => {
                    let fence = chosen(fence);
                    state.seen.fence_twice |= !state.fences.insert(fence);
                    state.seen.fence_fell |= Some(fence) <= before;
                    state.clients[client].phase = Phase::Holding;
                }
                Action::Lose => self.give_back(state, client),
            }
        }
    }

    /// Leaves out what will never change anything.
    fn tidy(&self, state: &mut State) {
        if self.has(Bug::SameToken) {
            return;
        }
        let current = |token: Token| {
            let client = &state.clients[usize::from(token / 16)];
            let is_last = self.token(usize::from(token / 16), client.attempts) == token;
            is_last && matches!(client.phase, Phase::Voting { .. })
        };
        let messages = &state.messages;
        let may_hold = |node: usize, token: Token| {
            let take = Message { node, token, what: Word::Take };
            state.nodes[node].holder == Some(token) || messages.contains(&take)
        };
        let matters = |message: &&Message| match message.what {
            Word::Take => true,
            Word::Confirm(_) if self.has(Bug::OwnerUnseen) => true,
            Word::Release => may_hold(message.node, message.token),
            Word::Confirm(_) => current(message.token) || may_hold(message.node, message.token),
            _ => current(message.token),
        };
        state.messages = messages.iter().filter(matters).copied().collect();
    }
}

impl State {
    /// Sends the same to all servers.
    fn send(&mut self, token: Token, what: Word) {
        self.messages.extend((0..NODES).map(|node| Message { node, token, what }));
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let client = |&attempts| Client { attempts, phase: Phase::Idle };
        vec![State {
            nodes: COUNTED.map(|counter| Node { holder: None, counter }),
            clients: self.attempts.iter().map(client).collect(),
            messages: BTreeSet::new(),
            restarts: self.restarts,
            others: self.others,
            fences: BTreeSet::new(),
            seen: Seen::default(),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (number, client) in state.clients.iter().enumerate() {
            match client.phase {
                Phase::Idle if client.attempts > 0 => steps.push(Step::Begin(number)),
                Phase::Idle => {}
                Phase::Voting { .. } => steps.push(Step::Deadline(number)),
                Phase::Holding => steps.push(Step::Release(number)),
            }
        }
        steps.extend(state.messages.iter().copied().map(Step::Arrive));
        for (number, node) in state.nodes.iter().enumerate() {
            if self.forget && node.holder.is_some() {
                steps.push(Step::Forget(number));
            }
            if state.restarts > 0 {
                steps.push(Step::Restart(number));
            }
            if state.others > 0 {
                steps.push(Step::OtherLock(number));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Begin(client) => self.begin(&mut state, client),
            Step::Arrive(message) => self.arrive(&mut state, message),
            Step::Deadline(client) => self.step(&mut state, client, Event::Deadline),
            Step::Release(client) => self.give_back(&mut state, client),
            Step::Forget(node) => state.nodes[node].holder = None,
            Step::Restart(node) => {
                state.restarts -= 1;
                state.nodes[node] = Node { holder: None, counter: 0 };
            }
            Step::OtherLock(node) => {
                state.others -= 1;
                state.nodes[node].counter += 1;
            }
        }
        self.tidy(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one holder", |world: &World, state: &State| {
                let holders = state.clients.iter().filter(|client| client.phase == Phase::Holding);
                world.forget || holders.count() <= 1
            }),
            Property::always("fences differ", |_, state: &State| !state.seen.fence_twice),
            Property::always("fences grow", |_, state: &State| !state.seen.fence_fell),
            Property::sometimes("all have had it", |world, state: &State| {
                state.fences.len() == world.attempts.len()
            }),
        ]
    }
}
