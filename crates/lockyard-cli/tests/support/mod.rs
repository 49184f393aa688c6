//! The program as a process, seen from a test.

#![allow(dead_code, reason = "each test binary needs a part of it")]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use lockyard_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};

/// A generous bound for what takes milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_lockyard");

/// The program with these arguments, and nothing of Lockyard in its environment but the server.
pub(crate) fn lockyard(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    for name in [
        "LOCKYARD_NAME",
        "LOCKYARD_OWNER",
        "LOCKYARD_TOKEN",
        "LOCKYARD_PREFIX",
    ] {
        command.env_remove(name);
    }
    command.env("LOCKYARD_URL", url).stdin(Stdio::null());
    command
}

/// `lockyard run` with options and a shell script.
pub(crate) fn run(url: &str, options: &[&str], script: &str) -> Command {
    let arguments = [&["run"], options, &["--", "sh", "-c", script]].concat();
    lockyard(url, &arguments)
}

pub(crate) fn output(mut command: Command) -> Output {
    command.output().expect("cargo has built the program")
}

pub(crate) fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the program writes UTF-8")
}

/// A process under way; it is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// The same, with the other end of its input.
    pub(crate) fn start_with_input(command: Command) -> (Self, ChildStdin) {
        let mut process = Self::start(command);
        let input = process.child.stdin.take().unwrap();
        (process, input)
    }

    /// Waits for the next line that it or its command prints.
    #[track_caller]
    pub(crate) fn next(&self) -> String {
        self.lines
            .recv_timeout(SOON)
            .expect("it says something in time")
    }

    #[track_caller]
    pub(crate) fn hears(&self, line: &str) {
        assert_eq!(self.next(), line);
    }

    /// Waits for a line with this text.
    #[track_caller]
    pub(crate) fn hears_of(&self, text: &str) {
        while !self.next().contains(text) {}
    }

    pub(crate) fn id(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends a signal to all in its process group, which it leads.
    pub(crate) fn signal_group(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it has started, the watch before the command.
    fn children(&self) -> Vec<String> {
        let path = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = std::fs::read_to_string(path).unwrap();
        assert!(!children.is_empty(), "it has started nothing");
        children.split_whitespace().map(str::to_owned).collect()
    }

    /// Signals the first that it has started: of a lockyard its watch.
    pub(crate) fn signal_child(&self, signal: Signal) {
        let pid = Pid::from_raw(self.children()[0].parse().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills what it has started.
    pub(crate) fn kill_children(&self) {
        for child in &self.children() {
            let pid = Pid::from_raw(child.parse().unwrap()).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
            // A thread that is left keeps its pipes open.
            let threads = format!("/proc/{child}/task");
            let is_last = || std::fs::read_dir(&threads).map_or(true, |left| left.count() <= 1);
            eventually(SOON, || is_gone(child) && is_last());
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Kills it when it sleeps, and so has done all that it does at the start.
    #[track_caller]
    pub(crate) fn kill_when_idle(&mut self) {
        eventually(SOON, || is_idle(&self.id()));
        self.child.kill().unwrap();
        self.wait();
    }

    /// Waits until it has ended.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < SOON, "it did not end in time");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.wait().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process sleeps; lockyard does when it has done all that it does at the start.
pub(crate) fn is_idle(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.contains(") S "))
}

/// Whether a process that is not ours has ended, or is a zombie that nobody has waited for yet.
pub(crate) fn is_gone(pid: &str) -> bool {
    let pid: i32 = pid.parse().expect("a process id");
    let zombie = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.contains(") Z "));
    zombie || test_kill_process(Pid::from_raw(pid).unwrap()).is_err()
}
