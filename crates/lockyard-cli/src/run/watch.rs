//! The process that ends the command if this one is killed, or paused beyond the lease.
//!
//! It reads from a pipe that only the process under watch writes to.
//! The system closes the pipe with its writer, however that ends, and then the command is ended.
//! Each line says what is left of the lease; if no other comes until then, the writer stands still, and the command is
//! ended as well.
//! Missed is only a kill or stop between the start of the command and the next write, which says whom to end.
//! A death signal (`PR_SET_PDEATHSIG`) would need no second process, but it exists only on Linux, and reaches the
//! command alone: what a killed shell script has started would go on.

use std::env;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal};

use crate::cli::complain;
use crate::run::job::{PAUSE, Target};

/// The hidden command that is the second process.
const COMMAND: &str = "watch";
/// What stands in place of a grace that is running already.
const RUNNING: &str = "-";

/// Twice so much later than the process under watch, which ends the command itself if it can, this one does.
const LATE: Duration = Duration::from_millis(125);

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
        // Renewals are not to wait for it.
        ioctl_fionbio(&input, true)?;
        Ok(Self { child, input })
    }

    /// Has the target ended if this process is killed, or if nothing is heard of it for the time left and a little.
    pub(crate) fn watch(
        &mut self,
        target: Target,
        grace: Duration,
        left: Duration,
    ) -> anyhow::Result<()> {
        self.write(target, &ms(grace).to_string(), left)
    }

    /// Has the target, which was asked to end, killed after a time, whatever becomes of this process.
    pub(crate) fn watch_end(&mut self, target: Target, grace: Duration) -> anyhow::Result<()> {
        self.write(target, RUNNING, grace)
    }

    fn write(&mut self, target: Target, grace: &str, left: Duration) -> anyhow::Result<()> {
        let (kind, pid) = match target {
            Target::Group(pid) => ("group", pid),
            Target::Process(pid) => ("process", pid),
        };
        let (pid, left_ms) = (pid.as_raw_nonzero(), ms(left));
        let line = format!("{kind} {pid} {grace} {left_ms}\n");
        match self.input.write_all(line.as_bytes()) {
            // It stands still itself, and has many lines to read.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            written => written.context("the watching process has ended"),
        }
    }

    /// Ends it, for the command has ended; also if it stands still, as the lock is to be released.
    pub(crate) fn dismiss(mut self) {
        // These fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What the second process does: it waits for the end of the first, or for its silence.
pub(crate) fn watch() -> anyhow::Result<ExitCode> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            // Nobody listens any more when the command is being ended.
            let _ = sender.send(line);
        }
    });
    let (mut watched, mut heard, mut left) = (None, Instant::now(), Duration::MAX);
    let reason = loop {
        // If this process itself stood still, what was written meanwhile gets a moment to come through.
        let line = lines
            .recv_timeout(left.saturating_add(LATE))
            .or_else(|_| lines.recv_timeout(LATE));
        let line = match line {
            Ok(line) => line.context("cannot read what to watch")?,
            Err(RecvTimeoutError::Disconnected) => break "is gone before its command",
            Err(RecvTimeoutError::Timeout) => break "stands still, and its lease is over",
        };
        let order = parse(&line).with_context(|| format!("cannot watch {line:?}"))?;
        watched = Some((order.0, order.1));
        (heard, left) = (Instant::now(), order.2);
    };
    if let Some((target, grace)) = watched {
        complain(&format!("`lockyard run` {reason}, so the command is ended"));
        end(
            target,
            grace.unwrap_or_else(|| left.saturating_sub(heard.elapsed())),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// What to end, the grace unless it is running, and what is left of the lease or of the grace.
fn parse(line: &str) -> Option<(Target, Option<Duration>, Duration)> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let pid = Pid::from_raw(words.next()?.parse().ok()?)?;
    let time = |word: &str| Some(Duration::from_millis(word.parse().ok()?));
    let grace = match words.next()? {
        RUNNING => None,
        word => Some(time(word)?),
    };
    let left = time(words.next()?)?;
    match kind {
        "group" => Some((Target::Group(pid), grace, left)),
        "process" => Some((Target::Process(pid), grace, left)),
        _ => None,
    }
}

fn end(target: Target, grace: Duration) {
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
