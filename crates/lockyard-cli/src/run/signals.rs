//! Signals that are meant for the command.
//!
//! In a process group of its own the command gets from a terminal or a shell nothing that is meant for this program, so
//! each signal is passed on.
//! In the foreground of a terminal both are in one group, and what the terminal sends reaches both: that is not passed
//! on.
//! What a process sends is, where the system says who sent it (macOS does not); the system does not tell whether it was
//! sent to this process or to the whole group, and then the command gets it twice.

use std::fs::{self, File};
use std::io;

use futures_util::StreamExt;
// Not rustix: its `getsid` and `getpgrp` panic where the leader is outside of this process's PID namespace.
use nix::unistd::{Pid, getpgrp, getsid, tcgetpgrp};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use signal_hook_tokio::SignalsInfo;

/// What is passed on.
const PASSED_ON: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];
/// What is passed on as well to a command that does not share the terminal; else the terminal's shell stops both.
const STOP_AND_GO: [Signal; 2] = [Signal::TSTP, Signal::CONT];
/// What a terminal sends to all in its foreground, for a key or when it hangs up.
const OF_TERMINALS: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::QUIT];

/// The signals sent to this process from now on.
pub(crate) struct Signals {
    stream: SignalsInfo<WithOrigin>,
    ignored: u64,
}

/// A signal that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) signal: Signal,
    /// All in the foreground got it.
    pub(crate) comes_from_terminal: bool,
}

impl Signals {
    /// From now on these signals end this process no more.
    pub(crate) fn listen() -> io::Result<Self> {
        let signals = Self {
            stream: SignalsInfo::new([0; 0])?,
            ignored: ignored(),
        };
        signals.add(&PASSED_ON)?;
        Ok(signals)
    }

    /// From now on this process neither stops nor continues by itself: see [`stop`].
    pub(crate) fn listen_to_stops(&self) -> io::Result<()> {
        self.add(&STOP_AND_GO)
    }

    fn add(&self, signals: &[Signal]) -> io::Result<()> {
        let heeded = |signal: &&Signal| self.ignored & (1 << (signal.as_raw() - 1)) == 0;
        let mut heeded = signals.iter().filter(heeded);
        heeded.try_for_each(|signal| self.stream.handle().add_signal(signal.as_raw()))
    }

    /// Waits for the next one.
    ///
    /// # Cancel safety
    ///
    /// None gets lost; but two of a kind may come as one, as everywhere, and of two kinds the later first.
    pub(crate) async fn next(&mut self) -> Received {
        loop {
            let origin = self.stream.next().await;
            let origin = origin.expect("the stream is never closed");
            let mut known = PASSED_ON.into_iter().chain(STOP_AND_GO);
            if let Some(signal) = known.find(|signal| signal.as_raw() == origin.signal) {
                let was_sent = matches!(origin.cause, Cause::Sent(_));
                // A hang-up goes to the leader of the session alone, and to the foreground when that has ended.
                let is_for_leader = signal == Signal::HUP && getsid(None) == Ok(Pid::this());
                return Received {
                    signal,
                    comes_from_terminal: OF_TERMINALS.contains(&signal)
                        && !was_sent
                        && !is_for_leader,
                };
            }
        }
    }
}

/// Stops this process, as SIGTSTP would have done, until it is continued.
pub(crate) fn stop() {
    // A process may always signal itself.
    let _ = kill_process(getpid(), Signal::STOP);
}

/// The signals that this process was started to ignore, a bit each: a handler would end that, for the command as well.
///
/// Where the system does not tell, it is none.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0)
}

/// Whether this process is in the foreground of a terminal.
pub(crate) fn in_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}
