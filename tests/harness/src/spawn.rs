//! Processes that end with the process that started them.

use std::io::{self, PipeReader};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

type Order = (Command, Sender<io::Result<Child>>);

/// Starts `command` and returns it with everything that it prints.
pub(crate) fn spawn(command: &Command) -> io::Result<(Child, PipeReader)> {
    let (output, writer) = io::pipe()?;
    let mut command = tied(command);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let (reply, started) = mpsc::channel();
    SPAWNER.send((command, reply)).expect("the spawner never ends");
    let child = started.recv().expect("the spawner answers")?;
    Ok((child, output))
}

/// A thread as long-lived as the process: for Linux it is the thread that starts a child which is
/// its parent, and whose end kills a tied one.
static SPAWNER: LazyLock<Sender<Order>> = LazyLock::new(|| {
    let (orders, receiver) = mpsc::channel::<Order>();
    thread::spawn(move || {
        for (mut command, reply) in receiver {
            let _ = reply.send(command.spawn());
        }
    });
    orders
});

/// `command`, to be killed when this process is gone, where `setpriv` can arrange that.
fn tied(command: &Command) -> Command {
    static CAN_TIE: LazyLock<bool> = LazyLock::new(|| {
        let mut trial = Command::new("setpriv");
        trial.args(["--pdeathsig", "KILL", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
        trial.status().is_ok_and(|status| status.success())
    });

    if *CAN_TIE {
        behind("setpriv", &["--pdeathsig", "KILL", "--"], command)
    } else {
        copy(command)
    }
}

/// `command`, started by another program that becomes it.
pub(crate) fn behind(program: &str, args: &[&str], command: &Command) -> Command {
    let mut first = Command::new(program);
    first.args(args).arg(command.get_program());
    passed_on(first, command)
}

fn copy(command: &Command) -> Command {
    passed_on(Command::new(command.get_program()), command)
}

/// `to` with the arguments, the environment and the folder of `command`.
fn passed_on(mut to: Command, command: &Command) -> Command {
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
