//! A test's other processes: this very binary, which runs the same test and is told to play another part in it.
//!
//! ```text
//! if let Some(part) = Part::mine() { return other_half(part).await; }
//! let other = Other::start("module::name_of_this_test", &[&server.url()]);
//! other.hears("held");
//! ```

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio, exit};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that makes a process the other one: its arguments, one a line.
const ARGUMENTS: &str = "LOCKYARD_TEST_PART";

/// Goes before a line that is meant for the test, for the harness writes lines as well.
const MARK: &str = "@ ";

/// How long a process may take to say something.
const PATIENCE: Duration = Duration::from_secs(30);

/// Another process, seen from the test that started it; it is killed when this is dropped.
pub(crate) struct Other {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Other {
    /// Starts the test of this full name once more, in a process of its own.
    pub(crate) fn start(test: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(ARGUMENTS, arguments.join("\n"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The harness may have begun the line with the test's name.
                if let Some((_, said)) = line.split_once(MARK) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self {
            child,
            input,
            lines,
        }
    }

    /// Waits until it says something, and returns that.
    pub(crate) fn next(&self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .expect("the other process says something in time")
    }

    /// Waits until it says just this.
    pub(crate) fn hears(&self, what: &str) {
        assert_eq!(self.next(), what);
    }

    /// Tells it something.
    pub(crate) fn tell(&mut self, what: &str) {
        let input = self
            .input
            .as_mut()
            .expect("its input is open until it is killed");
        writeln!(input, "{what}").unwrap();
    }

    /// Kills it (SIGKILL), and returns when it is gone.
    pub(crate) fn kill(&mut self) {
        // Fails if it has ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Stops it (SIGSTOP).
    pub(crate) fn pause(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub(crate) fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                start.elapsed() < 2 * PATIENCE,
                "the other process did not end"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What the other process knows of itself.
pub(crate) struct Part {
    pub(crate) arguments: Vec<String>,
    lines: Mutex<Receiver<String>>,
}

impl Part {
    /// The part to play, if this process is the other one; it ends when the test's process does.
    pub(crate) fn mine() -> Option<Self> {
        let arguments = std::env::var(ARGUMENTS).ok()?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdin().lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
            exit(0);
        });
        Some(Self {
            arguments: arguments.split('\n').map(str::to_owned).collect(),
            lines: Mutex::new(lines),
        })
    }

    /// Says something to the test.
    #[expect(
        clippy::unused_self,
        reason = "only the other process has something to say"
    )]
    pub(crate) fn say(&self, what: &str) {
        let mut output = stdout().lock();
        writeln!(output, "{MARK}{what}").unwrap();
        output.flush().unwrap();
    }

    /// Waits until the test tells it something; blocks.
    pub(crate) fn next(&self) -> String {
        let lines = self.lines.lock().unwrap();
        lines.recv().expect("the process ends with its input")
    }
}

/// Runs the test of this full name alone in a process of its own, where it may count threads, files and memory.
///
/// `true` in that process; `false` in the first one, when it has succeeded there.
pub(crate) fn alone(test: &str) -> bool {
    if std::env::var_os(ARGUMENTS).is_some() {
        return true;
    }
    let mut other = Other::start(test, &[]);
    let status = other.wait();
    assert!(
        status.success(),
        "in a process of its own it ended with {status}"
    );
    false
}
