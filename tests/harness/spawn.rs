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

    let mut tied = if *CAN_TIE {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program());
        setpriv
    } else {
        Command::new(command.get_program())
    };
    tied.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => tied.env(name, value),
            None => tied.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        tied.current_dir(dir);
    }
    tied
}
