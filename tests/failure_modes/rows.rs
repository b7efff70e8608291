//! The catalogue of what can go wrong with a lock in Redis.

/// A failure, and what the lock promises then.
pub(crate) struct Row {
    /// Number in the names of tests: `f01`.
    pub(crate) id: u8,
    pub(crate) what: &'static str,
    pub(crate) promise: &'static str,
    pub(crate) kind: Kind,
}

/// Extent of a promise.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The lock keeps the promise by itself.
    Kept,
    /// Only the ttl frees the lock.
    Ttl,
    /// Only a data store that compares fences is safe.
    Fence,
    /// Left to the operator of the service; the lock reports what it can.
    Yours,
    /// The failure cannot occur, for this reason.
    Void(&'static str),
    /// No test can show it, for this reason.
    Untested(&'static str),
}

use Kind::{Fence, Kept, Ttl, Untested, Void, Yours};

const fn row(id: u8, kind: Kind, what: &'static str, promise: &'static str) -> Row {
    Row { id, what, promise, kind }
}

#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row(1, Kept, "a call is dropped after its request was sent", "a release follows the request on the same connection"),
    row(2, Kept, "a call is dropped before its request was sent", "the same; nothing is left on the server"),
    row(3, Kept, "the reply is late, and the lock is taken after the error", "the release is repeated until the server has replied or the ttl is over"),
    row(4, Kept, "the reply is lost with its connection", "the next attempt first gives back what the lost request may have taken"),
    row(5, Void("the connection sends each request once, and no client repeats it"), "a client library repeats a request by itself", "a repeated request with the same token is always safe"),
    row(6, Kept, "a request arrives after its clean-up on another connection", "the clean-up is sent again on the connection of the request"),
    row(7, Ttl, "a copy of a request arrives after the release", "no call takes itself for the holder, and the lock expires"),
    row(8, Kept, "the reply to a renewal is lost", "the deadline stays where it was, and the renewal is sent again"),
    row(9, Kept, "the reply to a release is lost", "the release is sent again, and does not count as a loss"),
    row(10, Kept, "a body is dropped half way", "the lock is released at once; what the body has done so far stays done"),
    row(11, Kept, "the task of a body is aborted", "the lock is released at once"),
    row(12, Kept, "a body panics", "the lock is released at once, and the panic propagates"),
    row(13, Ttl, "the process is killed", "the lock expires, and the first waiter finds it free"),
    row(14, Kept, "a release fails, or its thread ends, while a guard is dropped", "another thread releases the lock, so the drop cannot fail half way"),
    row(15, Kept, "the runtime ends before the locks are released", "the lock's own thread releases them; `shutdown` waits for that"),
    row(16, Yours, "a guard is leaked", "it is renewed for as long as the process lives, or until `max_hold`"),
    row(17, Kept, "thousands of requests are cancelled", "no reply reaches any request but its own"),
    row(18, Void("there is no blocking interface"), "a blocking connection is used again after a timeout", "–"),
    row(19, Fence, "the process stands still for longer than the ttl, and resumes", "it learns of the loss before its body resumes; a write that was already under way is refused by its fence"),
    row(20, Kept, "the process stands still while the reply is on its way", "a reply that is older than the lease is not accepted"),
    row(21, Fence, "the process stands still between a check and a write", "the write is refused by its fence"),
    row(22, Kept, "the machine is suspended", "leases are counted on a clock that keeps running meanwhile (Linux)"),
    row(23, Kept, "the wall clock of a client jumps", "no effect: the wall clock is not used"),
    row(24, Fence, "the clock of the server jumps ahead, and keys expire early", "the holder learns of it at the next renewal; until then, only fences help"),
    row(25, Yours, "the clock of the server jumps back, and keys live too long", "releases work as usual; the lock of a dead holder has to be freed by `DEL`"),
    row(26, Kept, "the server stands still for longer than the ttl", "the holder stops at its deadline, which no late reply moves"),
    row(27, Kept, "a body blocks its thread", "leases are renewed by a thread of their own"),
    row(28, Kept, "a body never ends", "`max_hold` stops it"),
    row(29, Kept, "a process resumes after a long pause", "missed renewals are not made up for: at most one is sent for each lease"),
    row(30, Kept, "the connection to the server is slow", "renewals are scheduled from when the last one was sent"),
    row(31, Kept, "a round trip takes longer than the ttl", "an error within a bounded time, and nothing is left behind"),
    row(32, Kept, "a duration is given that Redis does not accept", "a compile error, or an error of the call"),
    row(33, Kept, "a renewal races with the release", "the release waits for it; this is not a loss"),
    row(34, Kept, "a loss races with the end of the body", "a body that returned before the deadline has succeeded"),
    row(35, Yours, "the body leaves work behind that continues", "a `Lease` can be passed to that work, and reports whether the lock is still held"),
    row(36, Yours, "part of the body cannot be cancelled", "that part can check its `Lease`; the call ends with `Lost`"),
    row(37, Fence, "the server restarts without its data", "the holder learns of it at the next renewal; with an append-only file, nothing is lost"),
    row(38, Untested("this needs a power cut; a killed process loses nothing"), "the server's machine loses power", "`appendfsync always` keeps every grant"),
    row(39, Fence, "a server restarts empty, and its replicas follow it", "as for a restart without data"),
    row(40, Fence, "another client flushes the server", "the holder learns of it at the next renewal, waiters continue, and fences keep growing"),
    row(41, Yours, "the server evicts locks when its memory is full", "a warning at the start; the holder learns of it at the next renewal"),
    row(42, Kept, "the server's memory is full", "new locks are refused; renewals and releases work"),
    row(43, Kept, "the server refuses writes because it could not save", "renewals and releases are retried until the ttl is over"),
    row(44, Kept, "the server refuses writes because replicas are missing", "the same"),
    row(45, Kept, "the server has become a replica", "the connection is replaced, and the address looked up again; at the start, a replica is an error"),
    row(46, Kept, "the server is still loading its data", "the request waits for it"),
    row(47, Kept, "the server hangs in another client's script", "the request waits for it; the script is not killed"),
    row(48, Kept, "the server forgets its scripts", "they are sent again in full"),
    row(49, Kept, "the user may not load scripts", "this permission is not needed"),
    row(50, Kept, "the user may not run a command that a script needs", "an error at once, which names the permission"),
    row(51, Kept, "the user is disabled or deleted", "an error at once; locks that were granted stay held until their deadline"),
    row(52, Kept, "the server accepts no further connections", "an error within a bounded time; a runtime opens at most two connections"),
    row(53, Kept, "idle connections are closed", "they are replaced without an error"),
    row(54, Kept, "a connection leads nowhere", "it is replaced after two missing replies, before a lease ends"),
    row(55, Kept, "certificates are wrong, or a port does not speak TLS", "an error at once; there is no fallback without TLS"),
    row(56, Kept, "the server runs no scripts", "an error at the start"),
    row(57, Void("no command is used that only some servers have"), "servers differ in their commands", "the same commands on Redis 7 and 8 and on Valkey"),
    row(58, Kept, "a script fails half way", "types are checked first, and the lock is written last"),
    row(59, Kept, "a fence number grows beyond what Lua can count", "an error, and the lock stays free"),
    row(60, Kept, "the key holds a value that is not a lock", "an error at once; the value is left alone"),
    row(61, Kept, "the key holds a lock without an expiry", "reported as such; the key is left alone"),
    row(62, Yours, "another program uses the same names", "no prefix is added, so that other programs can share a lock: choose one yourself"),
    row(63, Kept, "values contain separators", "two different lists of values never give the same key"),
    row(64, Yours, "one value is written in two ways", "values are taken as they are displayed: normalise them first"),
    row(65, Kept, "values contain braces", "they are escaped, and helper keys stay in the slot of the lock"),
    row(66, Kept, "values are empty or huge", "an error"),
    row(67, Kept, "a process is copied together with its random state", "every token comes from the operating system"),
    row(68, Void("a client that may write to the server can delete any lock"), "a client uses the token of another", "–"),
    row(69, Kept, "a body requests its own lock", "an error at once"),
    row(70, Kept, "two bodies wait for each other's locks", "the wait ends after its limit"),
    row(71, Yours, "two services use different servers or databases", "errors of the store name the server and the database"),
    row(72, Kept, "a connection is replaced", "the new one uses the database of the URL"),
    row(73, Fence, "the master dies before a replica has the lock", "it may be granted twice, unless replicas have to acknowledge it; fences grow all the same"),
    row(74, Kept, "a replica is promoted that lacks the lock", "acknowledgements of all replicas can be required"),
    row(75, Kept, "replicas acknowledge too late, or a different write", "`WAIT` runs on the same connection; without the acknowledgements, the lock is given back"),
    row(76, Kept, "waiting for replicas blocks a connection", "for at most half a timeout for each grant, one after the other; renewals have a connection of their own"),
    row(77, Kept, "`WAIT` goes to another server of the cluster", "it goes to the server of the lock"),
    row(78, Kept, "a lock is acknowledged that was not written on this connection", "it is written again first"),
    row(79, Kept, "an old master accepts writes after a failover", "clients leave it at once; with replicas that acknowledge, its holders stop"),
    row(80, Kept, "the sentinels name another master", "clients follow, and waiters keep their places if the new master has the queue"),
    row(81, Yours, "the clock of the next master is ahead or behind", "a lock ends early or late by as much, unless it is renewed or released; fences grow while the difference is less than a day"),
    row(82, Kept, "a master of a cluster dies or is cut off", "clients follow its replica; fences grow"),
    row(83, Kept, "slots of a cluster move or are missing", "redirections are followed; refused requests are retried while the call may wait"),
    row(84, Void("nothing is read from replicas"), "a replica reports who holds the lock", "–"),
    row(85, Kept, "one of the independent servers restarts without its memory, or its name leads to another one", "it does not vote until every lease that it had granted is over, unless its disk has all of them"),
    row(86, Kept, "two of the independent servers are the same", "an error at the start; later, it has one vote"),
    row(87, Kept, "many clients compete for the independent servers, and none gets a majority", "votes are given back at once, and the next attempts are spread at random"),
    row(88, Kept, "one of the independent servers is slow", "the majority is enough; the slow server is not waited for"),
    row(89, Kept, "only a minority of the independent servers renews", "the deadline stays; once a majority is impossible, the lock is lost at once"),
    row(100, Kept, "a push message to a waiter is lost", "the waiter polls within a second and a quarter"),
    row(101, Kept, "thousands wait for one lock", "each release wakes one of them"),
    row(102, Kept, "waiters overtake each other", "first come, first served, across all processes"),
    row(103, Kept, "thousands of leases are renewed at once", "they are renewed in batches, spread over time"),
    row(104, Kept, "a body takes longer than the ttl", "leases are renewed unless that is switched off"),
];
