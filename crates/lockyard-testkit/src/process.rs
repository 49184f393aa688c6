//! One server process, which never outlives the test.
//!
//! 1. Dropping a [`Process`] kills it and waits for its end; unwinding from a panic drops it too.
//! 2. If the test's own process is killed or aborts, nothing is dropped. So beside each server
//!    stands a shell that reads from a pipe held by the test's process. The system closes the
//!    pipe with its holder, however that ends, and the shell then kills the server and removes
//!    its folder. A death signal (`PR_SET_PDEATHSIG`) would be shorter, but it exists only on
//!    Linux, needs unsafe code, and strikes when the starting *thread* ends, so that a server
//!    shared by several tests would die with the first.
//! 3. The shell starts before the server, in the process that then becomes the server. So there
//!    is no moment at which a server runs unwatched, and the server is our own child.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::Error;

/// `$1` is the server's folder; the rest is the server's command line, which takes over `$$`.
/// The pipe moves to descriptor 3 because a shell gives its background jobs no standard input.
/// A line on the pipe dismisses the watcher: after that the id could belong to someone else.
const LAUNCH: &str = r#"
exec 3<&0
{ read -r _ <&3 || { kill -9 $$; rm -rf "$1"; }; } >/dev/null 2>&1 &
shift
exec "$@" 3<&- </dev/null
"#;

/// A server process with its watcher.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The pipe whose end tells the watcher that our process is gone.
    watched: ChildStdin,
    log: PathBuf,
}

impl Process {
    /// Starts `binary` with the configuration file and the log in `folder`.
    pub(crate) fn spawn(binary: &Path, folder: &Path) -> Result<Self, Error> {
        let log = folder.join("log");
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(Error::io("cannot open the server's log"))?;
        let errors = output
            .try_clone()
            .map_err(Error::io("cannot open the server's log"))?;
        let mut child = Command::new("/bin/sh")
            .args(["-c", LAUNCH, "sh"])
            .args([folder, binary])
            .arg(folder.join("server.conf"))
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            // Ctrl-C is for the test; the watcher ends the server after it.
            .process_group(0)
            .spawn()
            .map_err(Error::io("cannot start a shell for the server"))?;
        let watched = child.stdin.take().expect("the pipe was asked for above");
        Ok(Self {
            child,
            watched,
            log,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how the process ended, if it did.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the last lines of what the server has written.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Kills the process and waits until it is gone; does nothing if it is gone already.
    pub(crate) fn kill(&mut self) {
        // These fail only if the watcher or the server has ended before, which is what we want.
        let _ = self.watched.write_all(b"\n");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops the process; returns when it stands still.
    pub(crate) fn pause(&mut self) -> Result<(), Error> {
        let pid = self.signal(Signal::STOP)?;
        // The signal is only under way, so the stop itself is waited for; and the news of it is
        // left in place, for whoever pauses twice.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped)
            .map_err(|errno| Error::io("cannot pause the server")(errno.into()))?;
        Ok(())
    }

    /// Lets the process go on.
    pub(crate) fn resume(&mut self) -> Result<(), Error> {
        self.signal(Signal::CONT)?;
        Ok(())
    }

    fn signal(&mut self, signal: Signal) -> Result<Pid, Error> {
        let failed = Error::io("cannot signal the server");
        // The id of a process that has ended could belong to someone else.
        if self.exited().is_some() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        let pid = Pid::from_child(&self.child);
        match kill_process(pid, signal) {
            Ok(()) => Ok(pid),
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
