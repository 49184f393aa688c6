//! Signals that are meant for the command.
//!
//! In a process group of its own the command gets from a terminal or a shell nothing that is meant for this program, so
//! each signal is passed on.
//! In the foreground of a terminal both are in one group, and the keys' signals reach both.

use std::fs::{self, File};
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::{Signal, getpgrp};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{self, SignalKind, signal};

/// What is passed on.
const PASSED_ON: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// The signals sent to this process from now on.
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// From now on these signals end this process no more.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let streams = PASSED_ON
            .into_iter()
            .filter(|which| ignored & (1 << (which.as_raw() - 1)) == 0)
            .map(|which| Ok((which, signal(SignalKind::from_raw(which.as_raw()))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { streams })
    }

    /// Waits for the next one.
    ///
    /// # Cancel safety
    ///
    /// None gets lost; but two of a kind may come as one, as everywhere.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (which, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*which);
                }
            }
            Poll::Pending
        })
        .await
    }
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

/// Whether a key sends it to all in the foreground of the terminal.
pub(crate) fn comes_from_a_key(signal: Signal) -> bool {
    signal == Signal::INT || signal == Signal::QUIT
}
