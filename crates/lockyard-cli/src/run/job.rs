//! The command as a process.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::cli::complain;
use crate::run::options::SIGNALLED;

/// How often to see whether a process group has ended.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// Where a signal goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    /// To all in the process group that the command leads.
    Group(Pid),
    /// To the command alone.
    Process(Pid),
}

impl Target {
    pub(crate) fn signal(self, signal: Signal) -> rustix::io::Result<()> {
        match self {
            Self::Group(pid) => kill_process_group(pid, signal),
            Self::Process(pid) => kill_process(pid, signal),
        }
    }

    pub(crate) fn is_gone(self) -> bool {
        let result = match self {
            Self::Group(pid) => test_kill_process_group(pid),
            Self::Process(pid) => test_kill_process(pid),
        };
        result == Err(Errno::SRCH)
    }

    /// Asks it to end, also if it stands still.
    pub(crate) fn terminate(self) -> rustix::io::Result<()> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)
    }
}

/// The command while it runs.
#[derive(Debug)]
pub(crate) struct Job {
    child: Child,
    pub(crate) target: Target,
}

impl Job {
    /// Starts the command: in a process group of its own, or to share the terminal with this process.
    pub(crate) fn start(mut command: Command, shares_terminal: bool) -> io::Result<Self> {
        if !shares_terminal {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let pid = child
            .id()
            .and_then(|id| Pid::from_raw(id.try_into().ok()?))
            .expect("it has not been waited for");
        let target = if shares_terminal {
            Target::Process(pid)
        } else {
            Target::Group(pid)
        };
        Ok(Self { child, target })
    }

    /// Waits until the command has ended.
    ///
    /// # Cancel safety
    ///
    /// It can be called again.
    pub(crate) async fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let status = self.child.wait().await;
        status.context("cannot wait for the command")
    }

    /// Sends the command a signal; only while it has not been waited for.
    pub(crate) fn signal(&self, signal: Signal) {
        tell(self.target.signal(signal));
    }

    /// Ends the command and its process group: SIGTERM, and after the grace SIGKILL.
    pub(crate) async fn end(&mut self, grace: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        tell(self.target.terminate());
        let ended = timeout(grace, self.wait()).await.is_ok();
        if let (Target::Process(_), true) = (self.target, ended) {
            return Ok(());
        }
        while !self.target.is_gone() {
            if start.elapsed() >= grace {
                complain("the command goes on after SIGTERM, and is killed");
                tell(self.target.signal(Signal::KILL));
                break;
            }
            sleep(PAUSE).await;
        }
        self.wait().await.map(drop)
    }
}

/// Reports a signal that could not be sent, as to a command of another user.
fn tell(result: rustix::io::Result<()>) {
    match result {
        // It has just ended.
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => complain(&format!("cannot signal the command: {error}")),
    }
}

/// The exit status that a shell would report.
pub(crate) fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => SIGNALLED + signal as u8,
        (None, None) => unreachable!("a process that has ended did so by itself or by a signal"),
    }
}
