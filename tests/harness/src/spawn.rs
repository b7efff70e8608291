//! Child processes that end with the test process.

use std::io::{self, PipeReader};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

type Order = (Command, Sender<io::Result<Child>>);

/// Starts `command` and returns it with a pipe of both output streams.
pub(crate) fn spawn(command: &Command) -> io::Result<(Child, PipeReader)> {
    let (output, writer) = io::pipe()?;
    let mut command = tie_to_this_process(command);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let (reply, started) = mpsc::channel();
    SPAWNER.send((command, reply)).expect("the spawner never ends");
    let child = started.recv().expect("the spawner replies")?;
    Ok((child, output))
}

/// A thread that lives as long as the process. On Linux, the parent of a child is the thread that
/// started it, and the parent-death signal is sent when that thread ends.
static SPAWNER: LazyLock<Sender<Order>> = LazyLock::new(|| {
    let (orders, receiver) = mpsc::channel::<Order>();
    thread::spawn(move || {
        for (mut command, reply) in receiver {
            let _ = reply.send(command.spawn());
        }
    });
    orders
});

/// Wraps `command` so that it is killed when this process ends, where `setpriv` allows it.
fn tie_to_this_process(command: &Command) -> Command {
    static CAN_TIE: LazyLock<bool> = LazyLock::new(|| {
        let mut trial = Command::new("setpriv");
        trial.args(["--pdeathsig", "KILL", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
        trial.status().is_ok_and(|status| status.success())
    });

    if *CAN_TIE { wrap("setpriv", &["--pdeathsig", "KILL", "--"], command) } else { copy(command) }
}

/// Wraps `command` in another program, which then executes it.
pub(crate) fn wrap(program: &str, args: &[&str], command: &Command) -> Command {
    let mut first = Command::new(program);
    first.args(args).arg(command.get_program());
    copy_settings(first, command)
}

fn copy(command: &Command) -> Command {
    copy_settings(Command::new(command.get_program()), command)
}

/// Copies the arguments, the environment and the folder of `command` to `to`.
fn copy_settings(mut to: Command, command: &Command) -> Command {
    to.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        to.current_dir(dir);
    }
    to
}
