//! The process that ends the command if this one is killed.
//!
//! It reads from a pipe that only the process under watch writes to.
//! The system closes the pipe with its writer, however that ends, and then the command is ended.
//! Missed is only a kill between the start of the command and the next write, which says whom to end.
//! A death signal (`PR_SET_PDEATHSIG`) would need no second process, but it exists only on Linux, and reaches the
//! command alone: what a killed shell script has started would go on.

use std::env;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal};

use crate::cli::complain;
use crate::run::job::{PAUSE, Target};

/// The hidden command that is the second process.
const COMMAND: &str = "watch";
/// What the second process is told: nobody is to be ended any more.
const DONE: &str = "done";

/// The second process, seen from the first; unless it is dismissed, it ends the command when this is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    child: Child,
    input: ChildStdin,
}

impl Watcher {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // What is sent to the group of this process is not for the second one.
            .process_group(0)
            .spawn()?;
        let input = child.stdin.take().context("it has no input")?;
        Ok(Self { child, input })
    }

    /// Has the target ended if this process is killed.
    pub(crate) fn watch(&mut self, target: Target, grace: Duration) -> anyhow::Result<()> {
        let (kind, pid) = match target {
            Target::Group(pid) => ("group", pid),
            Target::Process(pid) => ("process", pid),
        };
        let (pid, grace_ms) = (pid.as_raw_nonzero(), grace.as_millis());
        writeln!(self.input, "{kind} {pid} {grace_ms}").context("the watching process has ended")
    }

    /// Lets it end, for the command has ended.
    pub(crate) fn dismiss(mut self) {
        // These fail only if it has been killed.
        let _ = writeln!(self.input, "{DONE}");
        let _ = self.child.wait();
    }
}

/// What the second process does: it waits for the end of the first.
pub(crate) fn watch() -> anyhow::Result<ExitCode> {
    let mut watched = None;
    for line in io::stdin().lock().lines() {
        let line = line.context("cannot read what to watch")?;
        if line == DONE {
            return Ok(ExitCode::SUCCESS);
        }
        watched = Some(parse(&line).with_context(|| format!("cannot watch {line:?}"))?);
    }
    if let Some((target, grace)) = watched {
        end(target, grace);
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(line: &str) -> Option<(Target, Duration)> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let pid = Pid::from_raw(words.next()?.parse().ok()?)?;
    let grace = Duration::from_millis(words.next()?.parse().ok()?);
    match kind {
        "group" => Some((Target::Group(pid), grace)),
        "process" => Some((Target::Process(pid), grace)),
        _ => None,
    }
}

fn end(target: Target, grace: Duration) {
    complain("`lockyard run` is gone before its command, which is ended");
    let start = Instant::now();
    // Both fail only if nothing is left, or if it belongs to another user, and then nothing can be done.
    let _ = target.terminate();
    while !target.is_gone() {
        if start.elapsed() >= grace {
            let _ = target.signal(Signal::KILL);
            return;
        }
        sleep(PAUSE);
    }
}
