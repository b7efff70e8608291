//! The faults of clients, network and servers, and their schedule, which follows from the seed.

use std::time::Duration;

use fastrand::Rng;

use crate::topology::Topology;
use crate::{CLIENTS, millis};

/// A fault and its duration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Process(ProcessFault),
    Network(NetworkFault),
    /// One client is stopped while a reply is in transit, and reads it when it resumes.
    Freeze(Duration),
    Server(ServerFault),
    /// A fault of some of several servers; the number selects the targets.
    Group(usize, GroupFault),
}

/// A fault of one client process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProcessFault {
    /// The process is stopped and resumed.
    Stop(Duration),
    /// The process is killed and replaced.
    Kill,
}

/// A fault of the connections of one client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NetworkFault {
    /// One reply is lost, with everything after it on its connection.
    LoseReply(Duration),
    /// Data is held back and delivered at the end.
    Hold(Direction, Duration),
    /// Data is dropped, and the connections are cut at the end.
    Lose(Direction, Duration),
    /// Data is delayed by the first duration, for the second one.
    Delay(Duration, Duration),
    /// The connections are cut.
    Cut,
}

/// The directions of a connection that a fault affects.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
    Both,
}

/// A fault of a single server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerFault {
    /// The process is stopped and resumed.
    Stop(Duration),
    /// The server sleeps and sends no replies.
    Sleep(Duration),
    /// A script of another client loops until it is killed.
    Hang(Duration),
    /// Writes are delayed.
    PauseWrites(Duration),
    /// Writes are refused for lack of memory.
    NoMemory(Duration),
    /// Writes are refused after a failed snapshot.
    NoSnapshot(Duration),
    /// Writes are refused for lack of replicas.
    NoReplica(Duration),
    /// The connections of one client type are closed.
    Disconnect(&'static str),
    /// The script cache is flushed.
    ForgetScripts,
    /// The process is killed and restarted.
    Restart,
    /// All data is deleted; only with `--amnesia`.
    Flush,
}

/// A fault of servers that can fail over or form a majority.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GroupFault {
    /// The targets are stopped, perhaps for long enough to cause a failover.
    Stop(Duration),
    /// The targets are killed, and restarted without data some time after the failover. In Redlock,
    /// two other servers are restarted right after.
    Kill(Duration),
    /// The targets delay their clients, perhaps for long enough to cause a failover.
    Pause(Duration),
    /// A planned failover of healthy servers.
    FailOver,
    /// A slot is moved to another master, in this time.
    MoveSlot(Duration),
    /// All servers close the connections of one client type.
    Disconnect(&'static str),
    /// All servers flush their script caches.
    ForgetScripts,
}

impl Fault {
    /// Whether the fault affects one client and no server.
    pub(crate) fn hits_one_client(self) -> bool {
        matches!(self, Self::Process(_) | Self::Network(_) | Self::Freeze(_))
    }
}

/// A fault of the schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedFault {
    /// The time since the previous fault.
    pub(crate) after: Duration,
    /// The client that is affected, if the fault affects one.
    pub(crate) client: usize,
    pub(crate) fault: Fault,
}

/// The endless sequence of faults of a run.
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
    type Item = PlannedFault;

    fn next(&mut self) -> Option<PlannedFault> {
        let random = &mut self.random;
        let after = millis(random.u64(100..700));
        let client = random.usize(..CLIENTS);
        let fault = match random.u8(..10) {
            _ if self.topology != Topology::Server => topology_fault(self.topology, random),
            0..2 => Fault::Process(process_fault(random)),
            2..5 => Fault::Network(network_fault(random)),
            5 => Fault::Freeze(millis(random.u64(100..2_500))),
            _ if self.amnesia && random.u8(..4) == 0 => Fault::Server(ServerFault::Flush),
            _ => Fault::Server(server_fault(random)),
        };
        Some(PlannedFault { after, client, fault })
    }
}

/// A fault where several servers keep the locks. There are no network faults: the servers announce
/// each other's addresses, so that clients bypass proxies.
fn topology_fault(topology: Topology, random: &mut Rng) -> Fault {
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
            Topology::Cluster if other == 8 => GroupFault::MoveSlot(duration / 2),
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
    let direction = match random.u8(..3) {
        0 => Direction::ToServer,
        1 => Direction::ToClient,
        _ => Direction::Both,
    };
    match random.u8(..7) {
        0 => NetworkFault::Cut,
        1 => NetworkFault::LoseReply(millis(random.u64(100..2_500))),
        2 => NetworkFault::Lose(direction, millis(random.u64(500..3_000))),
        3..5 => NetworkFault::Delay(millis(random.u64(5..200)), millis(random.u64(1_000..4_000))),
        _ => NetworkFault::Hold(direction, millis(random.u64(100..2_000))),
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
