//! The machine: its clocks, its cores, and what it is.

use std::fs;
use std::io::{Error, Result};
use std::thread::available_parallelism;
use std::time::Duration;

use rustix::process::{Pid, nice, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The core of the server.
pub(crate) const SERVER_CORE: usize = 0;

/// The core of all clients.
pub(crate) const CLIENT_CORE: usize = 1;

/// The clock that all processes share.
pub(crate) fn now() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

/// The processor time of this process, all its threads together.
pub(crate) fn cpu_time() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

/// How many cores there are to run on.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Keeps this thread, and those that it will start, on one core; where there is only one, nothing
/// is to be done.
pub(crate) fn pin_self(core: usize) -> Result<()> {
    pin(None, core)
}

/// Keeps all threads of a process on one core.
pub(crate) fn pin_process(pid: u32, core: usize) -> Result<()> {
    for thread in threads(pid)? {
        pin(Some(thread), core)?;
    }
    Ok(())
}

/// Lets others on its core go first.
pub(crate) fn put_behind(pid: u32) -> Result<()> {
    for thread in threads(pid)? {
        setpriority_process(Some(thread), 10)?;
    }
    Ok(())
}

fn threads(pid: u32) -> Result<Vec<Pid>> {
    let thread = |entry: Result<fs::DirEntry>| {
        let id = entry?.file_name().to_str().and_then(|id| id.parse().ok());
        id.and_then(Pid::from_raw).ok_or_else(|| Error::other("not a thread's id"))
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

/// Keeps one core from falling asleep, whose waking up would be measured, at the lowest priority.
pub(crate) fn spin(core: usize) -> Result<()> {
    nice(19)?;
    pin_self(core)?;
    loop {
        std::hint::spin_loop();
    }
}

/// Processor and kernel, in one line.
pub(crate) fn description() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{model}, {} cores, Linux {}", cores(), kernel.trim())
}

fn duration(time: Timespec) -> Duration {
    Duration::try_from(time).expect("these clocks start at zero")
}
