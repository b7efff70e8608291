//! What befalls clients, network and servers, and when: all of it follows from the seed.

use std::time::Duration;

use fastrand::Rng;

use crate::topology::Topology;
use crate::{CLIENTS, millis};

/// A fault, with how long it lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Process(ProcessFault),
    Network(NetworkFault),
    /// One client stands still while an answer is on its way, and finds it when it goes on.
    Freeze(Duration),
    Server(ServerFault),
    /// What befalls some servers of several; the number says which.
    Group(usize, GroupFault),
}

/// What befalls the process of one client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProcessFault {
    /// It stands still.
    Stop(Duration),
    /// It is killed, and another one takes its place.
    Kill,
}

/// What befalls the connections of one client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NetworkFault {
    /// One reply gets lost, and all that comes after on its connection.
    LoseReply(Duration),
    /// Nothing is delivered, and everything later.
    Hold(Way, Duration),
    /// Nothing is delivered, ever.
    Lose(Way, Duration),
    /// Everything is late by the first duration.
    Delay(Duration, Duration),
    Cut,
}

/// The directions of a connection that a fault concerns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    ToServer,
    ToClient,
    Both,
}

/// What befalls the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerFault {
    /// The process stands still.
    Stop(Duration),
    /// It answers nobody.
    Sleep(Duration),
    /// Somebody's script does not end before it is killed.
    Hang(Duration),
    /// Writes are answered later.
    PauseWrites(Duration),
    /// Writes are refused: there is no memory for them.
    NoMemory(Duration),
    /// Writes are refused: a snapshot has failed.
    NoSnapshot(Duration),
    /// Writes are refused: there is no replica.
    NoReplica(Duration),
    /// Connections are closed, of clients of one type.
    Disconnect(&'static str),
    ForgetScripts,
    /// The process is killed and started anew.
    Restart,
    /// All data is gone; with amnesia only.
    Flush,
}

/// What befalls servers of which others can take the place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GroupFault {
    /// Those in charge stand still, perhaps for so long that others take over.
    Stop(Duration),
    /// They are killed, and started anew some time after others have taken over, without their data; of
    /// independent ones, two others as well.
    Kill(Duration),
    /// They answer later, perhaps so late that others take over.
    Pause(Duration),
    /// Another one takes over, though all is well.
    FailOver,
    /// A slot is moved to another one, which takes a while.
    Move(Duration),
    /// All close their connections, of clients of one type.
    Disconnect(&'static str),
    /// All forget their scripts.
    ForgetScripts,
}

impl Fault {
    /// Whether it befalls one client, and none of the servers.
    pub(crate) fn is_of_client(self) -> bool {
        matches!(self, Self::Process(_) | Self::Network(_) | Self::Freeze(_))
    }
}

/// A fault to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    /// The pause before it.
    pub(crate) after: Duration,
    /// The client that it concerns, if it concerns one.
    pub(crate) client: usize,
    pub(crate) fault: Fault,
}

/// All faults of a run, without end.
#[derive(Debug)]
pub(crate) struct Schedule {
    random: Rng,
    topology: Topology,
    amnesia: bool,
}

impl Schedule {
    pub(crate) fn new(seed: u64, topology: Topology, amnesia: bool) -> Self {
        Self { random: Rng::with_seed(seed), topology, amnesia }
    }
}

impl Iterator for Schedule {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let random = &mut self.random;
        let after = millis(random.u64(100..700));
        let client = random.usize(..CLIENTS);
        let fault = match random.u8(..10) {
            _ if self.topology != Topology::Server => several(self.topology, random),
            0..2 => Fault::Process(process_fault(random)),
            2..5 => Fault::Network(network_fault(random)),
            5 => Fault::Freeze(millis(random.u64(100..2_500))),
            _ if self.amnesia && random.u8(..4) == 0 => Fault::Server(ServerFault::Flush),
            _ => Fault::Server(server_fault(random)),
        };
        Some(Planned { after, client, fault })
    }
}

/// A fault where several servers keep the locks. The network is left alone: servers tell clients where
/// others are, and nothing stands between.
fn several(topology: Topology, random: &mut Rng) -> Fault {
    if random.u8(..10) < 4 {
        return Fault::Process(process_fault(random));
    }
    let duration = millis(random.u64(100..1_500));
    let fault = match random.u8(..10) {
        0..2 => GroupFault::Disconnect("normal"),
        2 => GroupFault::Disconnect("pubsub"),
        3 => GroupFault::ForgetScripts,
        4..6 => GroupFault::Pause(duration),
        6 => GroupFault::Kill(duration),
        7 => GroupFault::Stop(2 * duration),
        other => match topology {
            Topology::Cluster if other == 8 => GroupFault::Move(duration / 2),
            Topology::Sentinel | Topology::Replicas | Topology::Cluster => GroupFault::FailOver,
            Topology::Server | Topology::Redlock => GroupFault::Kill(duration),
        },
    };
    Fault::Group(random.usize(..100), fault)
}

fn process_fault(random: &mut Rng) -> ProcessFault {
    match random.u8(..3) {
        0 => ProcessFault::Kill,
        _ => ProcessFault::Stop(millis(random.u64(100..2_500))),
    }
}

fn network_fault(random: &mut Rng) -> NetworkFault {
    let way = match random.u8(..3) {
        0 => Way::ToServer,
        1 => Way::ToClient,
        _ => Way::Both,
    };
    match random.u8(..7) {
        0 => NetworkFault::Cut,
        1 => NetworkFault::LoseReply(millis(random.u64(100..2_500))),
        2 => NetworkFault::Lose(way, millis(random.u64(500..3_000))),
        3..5 => NetworkFault::Delay(millis(random.u64(5..200)), millis(random.u64(1_000..4_000))),
        _ => NetworkFault::Hold(way, millis(random.u64(100..2_000))),
    }
}

fn server_fault(random: &mut Rng) -> ServerFault {
    let duration = millis(random.u64(100..1_500));
    match random.u8(..11) {
        0 => ServerFault::Stop(duration),
        1 => ServerFault::Sleep(duration),
        2 => ServerFault::Hang(millis(300)),
        3 => ServerFault::PauseWrites(duration),
        4 => ServerFault::NoMemory(duration),
        5 => ServerFault::NoSnapshot(duration),
        6 => ServerFault::NoReplica(duration),
        7 => ServerFault::Disconnect("normal"),
        8 => ServerFault::Disconnect("pubsub"),
        9 => ServerFault::ForgetScripts,
        _ => ServerFault::Restart,
    }
}
