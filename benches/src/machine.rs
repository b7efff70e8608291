//! The machine: its clocks, its cores and its description.

use std::fs;
use std::io::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use rustix::process::{Pid, nice, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The core of the server.
pub(crate) const SERVER_CORE: usize = 0;

/// The core of all clients.
pub(crate) const CLIENT_CORE: usize = 1;

/// Returns the time of the clock that all processes share.
pub(crate) fn now() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

/// Returns the processor time of this process, over all its threads.
pub(crate) fn cpu_time() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

/// A [`Duration`] that the body of a call stores for its caller.
#[derive(Debug, Default)]
pub(crate) struct AtomicDuration(AtomicU64);

impl AtomicDuration {
    pub(crate) fn store(&self, duration: Duration) {
        let nanos = duration.as_nanos().try_into().unwrap_or(u64::MAX);
        self.0.store(nanos, Ordering::Relaxed);
    }

    pub(crate) fn load(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Returns the number of available cores.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Pins this thread, and the threads that it will start, to one core. On a machine with a single
/// core, this does nothing.
pub(crate) fn pin_self(core: usize) -> Result<()> {
    pin(None, core)
}

/// Pins all threads of a process to one core.
pub(crate) fn pin_process(pid: u32, core: usize) -> Result<()> {
    for thread in threads(pid)? {
        pin(Some(thread), core)?;
    }
    Ok(())
}

/// Lowers the priority of a process.
pub(crate) fn lower_priority(pid: u32) -> Result<()> {
    for thread in threads(pid)? {
        setpriority_process(Some(thread), 10)?;
    }
    Ok(())
}

fn threads(pid: u32) -> Result<Vec<Pid>> {
    let thread = |entry: Result<fs::DirEntry>| {
        let id = entry?.file_name().to_str().and_then(|id| id.parse().ok());
        id.and_then(Pid::from_raw).ok_or_else(|| Error::other("invalid thread id"))
    };
    fs::read_dir(format!("/proc/{pid}/task"))?.map(thread).collect()
}

fn pin(thread: Option<Pid>, core: usize) -> Result<()> {
    if cores() == 1 {
        return Ok(());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(thread, &set)?)
}

/// Keeps one core busy at the lowest priority: the time to wake it would be measured.
pub(crate) fn spin(core: usize) -> Result<()> {
    nice(19)?;
    pin_self(core)?;
    loop {
        std::hint::spin_loop();
    }
}

/// Describes processor and kernel in one line.
pub(crate) fn description() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{model}, {} cores, Linux {}", cores(), kernel.trim())
}

fn duration(time: Timespec) -> Duration {
    Duration::try_from(time).expect("the clock is negative")
}
