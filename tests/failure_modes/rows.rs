//! The catalogue of what can go wrong with a lock in Redis.

/// One thing that can go wrong.
pub(crate) struct Row {
    /// The number by which tests name it: `f01`.
    pub(crate) id: u8,
    pub(crate) what: &'static str,
    pub(crate) promise: &'static str,
    pub(crate) kind: Kind,
}

/// How far the promise goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The lock does the right thing by itself.
    Kept,
    /// The ttl ends it, and nothing else can.
    Ttl,
    /// Only data that compares fences is safe.
    Fence,
    /// It is left to whoever runs the service; the lock says what it can.
    Yours,
    /// There is no such thing here, and why.
    Void(&'static str),
    /// It cannot be shown by a test, and why.
    Untested(&'static str),
}

use Kind::{Fence, Kept, Ttl, Untested, Void, Yours};

const fn row(id: u8, kind: Kind, what: &'static str, promise: &'static str) -> Row {
    Row { id, what, promise, kind }
}

#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row(1, Kept, "a call is dropped after its request was sent", "the request is followed by a release on the same connection"),
    row(2, Kept, "a call is dropped before its request was sent", "the same; nothing is on the server"),
    row(3, Kept, "the answer is late, and the lock is taken after the error", "the release follows until the server has answered or the ttl is over"),
    row(4, Kept, "the answer is lost with its connection", "the next attempt first gives back what the lost one may have taken"),
    row(5, Void("requests are sent by the connection once; there is no client that repeats them"), "a client library repeats a request by itself", "asking again with the same token is safe in any case"),
    row(6, Kept, "a request arrives after its clean-up on another connection", "the clean-up is sent again where the request was sent"),
    row(7, Ttl, "a copy of a request arrives after the release", "nobody is told that he holds the lock, and it expires"),
    row(8, Kept, "the answer to a renewal is lost", "the deadline stays where it was, and the renewal is sent again"),
    row(9, Kept, "the answer to a release is lost", "the release is sent again, and not taken for a loss"),
    row(10, Kept, "a body is dropped half way", "the lock is given back at once; what the body has done half stays so"),
    row(11, Kept, "the task of a body is aborted", "the lock is given back at once"),
    row(12, Kept, "a body panics", "the lock is given back at once, and the panic goes on"),
    row(13, Ttl, "the process is killed", "the lock expires, and the first in the queue finds it free"),
    row(14, Kept, "something goes wrong while a guard is dropped", "the release is handed to another thread, which cannot fail half way"),
    row(15, Kept, "the runtime ends before the locks are given back", "the lock's own thread gives them back; `shutdown` waits for that"),
    row(16, Yours, "a guard is leaked", "it is renewed as long as the process lives, or until `max_hold`"),
    row(17, Kept, "requests are cancelled by the thousand", "no answer reaches another request than its own"),
    row(18, Void("there is no blocking interface"), "a blocking connection is used again after a timeout", "–"),
    row(19, Fence, "the process stands still longer than the ttl, and goes on", "it learns of the loss before its body goes on; a write that was already under way is refused by its fence"),
    row(20, Kept, "the process stands still while the answer is on its way", "an answer that is older than the lease is not believed"),
    row(21, Fence, "the process stands still between a check and a write", "the write is refused by its fence"),
    row(22, Kept, "the machine is suspended", "leases are counted on a clock that goes on meanwhile (Linux)"),
    row(23, Kept, "the wall clock of a client jumps", "it is not used"),
    row(24, Fence, "the clock of the server jumps ahead, and keys expire early", "the next renewal tells the holder; until then only fences help"),
    row(25, Yours, "the clock of the server jumps back, and keys live long", "releases work as ever; what a dead holder left is freed by `DEL`"),
    row(26, Kept, "the server stands still longer than the ttl", "the holder stops at its deadline, which no late answer moves"),
    row(27, Kept, "a body blocks its thread", "leases are renewed by a thread of their own"),
    row(28, Kept, "a body never ends", "`max_hold` stops it"),
    row(29, Kept, "a process goes on after a long pause", "what was missed is not made up for: at most one renewal for each lease"),
    row(30, Kept, "the way to the server is slow", "renewals are planned from when the last one was sent"),
    row(31, Kept, "the way to the server takes longer than the ttl", "an error within a bound, and nothing is left"),
    row(32, Kept, "durations that Redis does not accept", "an error of the compiler, or of the call"),
    row(33, Kept, "a renewal races with the release", "the release waits for it; there is no loss"),
    row(34, Kept, "a loss races with the end of the body", "a body that returned before the deadline has succeeded"),
    row(35, Yours, "the body leaves work behind that goes on", "a `Lease` can be sent along, and tells whether it lasts"),
    row(36, Yours, "the body has a part that cannot be cancelled", "the part can ask its `Lease`; the call ends with `Lost`"),
    row(37, Fence, "the server restarts without its data", "the next renewal tells the holder; with an append-only file nothing is lost"),
    row(38, Untested("it takes a power cut; a killed process loses nothing"), "the server's machine loses its power", "`appendfsync always` keeps every grant"),
    row(39, Fence, "a server restarts empty, and its replicas follow it", "as for a restart without data"),
    row(40, Fence, "somebody flushes the server", "the next renewal tells the holder, waiters go on, and fences grow on"),
    row(41, Yours, "the server evicts locks when its memory is full", "a warning at the start; the next renewal tells the holder"),
    row(42, Kept, "the server's memory is full", "new locks are refused; renewals and releases work"),
    row(43, Kept, "the server refuses writes because it could not save", "renewals and releases are tried until the ttl is over"),
    row(44, Kept, "the server refuses writes because replicas are missing", "the same"),
    row(45, Kept, "the server has become a replica", "its connection is replaced, and the address looked up again; at the start, a replica is an error"),
    row(46, Kept, "the server loads its data", "waited for"),
    row(47, Kept, "the server hangs in somebody's script", "waited for; the script is not killed"),
    row(48, Kept, "the server forgets the scripts", "they are sent in full"),
    row(49, Kept, "the user may not load scripts", "not needed"),
    row(50, Kept, "the user may not run a command that a script needs", "an error at once, which names the permission"),
    row(51, Kept, "the user is switched off or deleted", "an error at once; what was granted stays until its deadline"),
    row(52, Kept, "the server accepts no more connections", "an error within a bound; at most two connections per runtime"),
    row(53, Kept, "connections are closed while nobody uses them", "replaced without an error"),
    row(54, Kept, "a connection leads nowhere", "replaced after two missing answers, before a lease ends"),
    row(55, Kept, "certificates are wrong, or a port does not speak TLS", "an error at once; never without TLS"),
    row(56, Kept, "the server runs no scripts", "an error at the start"),
    row(57, Void("no command is used that only some servers have"), "servers differ in their commands", "the same commands on Redis 7 and 8 and on Valkey"),
    row(58, Kept, "a script fails half way", "types are looked at first, and the lock is written last"),
    row(59, Kept, "a fence number grows beyond what Lua can count", "an error, and the lock stays free"),
    row(60, Kept, "the key holds something that is no lock", "an error at once; it is not touched"),
    row(61, Kept, "the key holds a lock without an expiry", "reported as such; it is not touched"),
    row(62, Yours, "somebody else uses the same names", "no prefix is added, so that others can share a lock: choose one"),
    row(63, Kept, "values with separators in them", "two different lists of values never make one key"),
    row(64, Yours, "one thing is written in two ways", "values are taken as they are displayed: normalise them first"),
    row(65, Kept, "values with braces in them", "they are escaped, and helper keys stay in the slot of the lock"),
    row(66, Kept, "values that are empty or huge", "an error"),
    row(67, Kept, "a process is copied with its random numbers", "tokens come from the operating system each time"),
    row(68, Void("who may write to the server can delete any lock"), "somebody uses the token of another", "–"),
    row(69, Kept, "a body asks for its own lock", "an error at once"),
    row(70, Kept, "two bodies wait for each other's locks", "the wait ends by itself"),
    row(71, Yours, "two services use different servers or databases", "both stand in the errors of the store"),
    row(72, Kept, "a connection is replaced", "the new one uses the database of the URL"),
    row(73, Fence, "the master dies before a replica has the lock", "it may be granted twice, unless replicas have to acknowledge it; fences grow all the same"),
    row(74, Kept, "a replica is promoted that lacks the lock", "all replicas can be asked to acknowledge it"),
    row(75, Kept, "replicas acknowledge too late, or something else", "`WAIT` on the same connection; else the lock is given back"),
    row(76, Kept, "waiting for replicas holds up a connection", "each grant for half a timeout at most, one after the other; renewals have a connection of their own"),
    row(77, Kept, "`WAIT` goes to other servers of a cluster", "it goes to the server of the lock"),
    row(78, Kept, "a lock is acknowledged that was not written on this connection", "it is written again first"),
    row(79, Kept, "an old master takes writes after a failover", "it is left at once; with replicas that acknowledge, its holders stop"),
    row(80, Kept, "the sentinels name another master", "it is followed, and waiters keep their places if it has the queue"),
    row(81, Yours, "the clock of the next master is ahead, or behind", "a lock ends early or late by as much, unless it is renewed or released; fences grow while that is less than a day"),
    row(82, Kept, "a master of a cluster dies or is cut off", "its replica is followed; fences grow"),
    row(83, Kept, "slots of a cluster move, or are missing", "redirections are followed; what is refused is tried again within the time to wait"),
    row(84, Void("nothing is read from replicas"), "a replica says who holds the lock", "–"),
    row(85, Kept, "one of independent servers restarts without its memory, or its name leads to another one", "it does not vote until every lease it had granted is over, unless its disk has all"),
    row(86, Kept, "two of independent servers are one", "an error at start; later it has one vote"),
    row(87, Kept, "many ask independent servers at once, and nobody gets a majority", "votes are given back at once, and the next attempts spread at random"),
    row(88, Kept, "one of independent servers is slow", "the majority is enough; it is not waited for"),
    row(89, Kept, "a minority of independent servers renews", "the deadline stays; when no majority can be left, the lock is lost at once"),
    row(100, Kept, "a message to a waiter is lost", "he asks again within a second and a quarter"),
    row(101, Kept, "thousands wait for one lock", "one of them is woken for each release"),
    row(102, Kept, "waiters overtake each other", "first come, first served, over all processes"),
    row(103, Kept, "thousands of leases are renewed at once", "in packets, and spread over time"),
    row(104, Kept, "a body takes longer than the ttl", "leases are renewed unless that is switched off"),
];
