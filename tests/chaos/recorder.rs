//! What a process notes, line by line in a file of its own: each line is there when the call returns, so a process that
//! is killed loses nothing.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockyard::{Error, Owner};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::timeout;

use super::kind::{Guard, Handle, named};
use crate::history::{Event, Nanos, Outcome, What};

/// The time by a clock that all processes share, and that counts suspended time as the lock's own does.
pub(crate) fn now() -> Nanos {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

pub(crate) fn nanos(duration: Duration) -> Nanos {
    duration.as_nanos() as Nanos
}

/// The notes of one process.
#[derive(Debug)]
pub(crate) struct Recorder {
    process: u32,
    file: Mutex<File>,
    attempts: AtomicU64,
}

impl Recorder {
    pub(crate) fn create(path: &Path, process: u32) -> Arc<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        Arc::new(Self {
            process,
            file: Mutex::new(file),
            attempts: AtomicU64::new(1),
        })
    }

    /// Reads what a process noted; only a line that it was killed over may be torn.
    pub(crate) fn read(path: &Path) -> Vec<Event> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Notes which client the process has.
    pub(crate) fn connected(&self, owner: &Owner) {
        // An owner of a client begins with the client's name.
        let client = named(owner)
            .split(':')
            .next()
            .unwrap_or_default()
            .to_owned();
        self.note(now(), 0, What::Connected { client });
    }

    /// Begins an attempt; `owner` if it asks under a name.
    pub(crate) fn ask(self: &Arc<Self>, lock: &Handle, owner: Option<&Owner>) -> Attempt {
        let number = self.attempts.fetch_add(1, SeqCst);
        let what = What::Asked {
            lock: lock.name().to_owned(),
            share: lock.share(),
            owner: owner.map(named),
        };
        self.note(now(), number, what);
        Attempt {
            recorder: self.clone(),
            number,
            outcome: Outcome::Dropped,
        }
    }

    fn note(&self, at: Nanos, attempt: u64, what: What) {
        let event = Event {
            at,
            process: self.process,
            attempt,
            what,
        };
        let mut line = serde_json::to_vec(&event).unwrap();
        line.push(b'\n');
        self.file.lock().unwrap().write_all(&line).unwrap();
    }
}

/// An attempt under way; its end is noted when it is dropped.
#[derive(Debug)]
pub(crate) struct Attempt {
    recorder: Arc<Recorder>,
    number: u64,
    outcome: Outcome,
}

impl Attempt {
    /// Takes the answer to an acquire.
    pub(crate) fn answered(mut self, answer: Result<Option<Guard>, Error>) -> Option<Held> {
        match answer {
            Ok(Some(guard)) => Some(Held::new(self, guard)),
            Ok(None) => {
                self.outcome = Outcome::Refused;
                None
            }
            Err(error) => {
                // One of two processes of an owner may ask to write while the other reads, and a limit may be lowered.
                let refused = matches!(
                    error,
                    Error::WouldDeadlock { .. } | Error::InvalidPermits { .. }
                );
                self.outcome = failure(&error, refused || error.is_retryable());
                None
            }
        }
    }

    fn note(&self, at: Nanos, what: What) {
        self.recorder.note(at, self.number, what);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.note(now(), What::Over(self.outcome.clone()));
    }
}

/// How a guard is given away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leave {
    Release,
    /// The release's future is dropped after a while.
    ReleaseFor(Duration),
    Drop,
}

/// A guard, whose state is noted whenever somebody looks, and at its end.
#[derive(Debug)]
pub(crate) struct Held {
    guard: Option<Guard>,
    lost: AtomicBool,
    attempt: Attempt,
}

impl Held {
    fn new(attempt: Attempt, guard: Guard) -> Self {
        let at = now();
        let what = What::Acquired {
            owner: guard.owner(),
            token: guard.token(),
            until: deadline(&guard, at).unwrap_or_default(),
        };
        attempt.note(at, what);
        Self {
            guard: Some(guard),
            lost: AtomicBool::new(false),
            attempt,
        }
    }

    /// Notes whether it is lost; `true` if it is.
    pub(crate) fn look(&self) -> bool {
        let Some(guard) = &self.guard else {
            return true;
        };
        if self.lost.load(SeqCst) {
            // So that one that comes back is noted.
            if let Some(until) = deadline(guard, now()) {
                self.attempt.note(now(), What::Believed { until });
            }
            return true;
        }
        let at = now();
        match deadline(guard, at) {
            Some(until) => {
                self.attempt.note(at, What::Believed { until });
                false
            }
            None => {
                self.attempt.note(now(), What::Lost);
                self.lost.store(true, SeqCst);
                true
            }
        }
    }

    /// Gives the guard away.
    pub(crate) async fn leave(mut self, how: Leave) {
        let Some(guard) = self.take() else { return };
        let result = match how {
            Leave::Drop => return drop(guard),
            Leave::Release => guard.release().await,
            Leave::ReleaseFor(patience) => match timeout(patience, guard.release()).await {
                Ok(result) => result,
                Err(_) => return,
            },
        };
        self.attempt.outcome = match result {
            Ok(()) => Outcome::Released,
            Err(error) => {
                let explained = matches!(
                    error,
                    Error::LeaseLost { .. } | Error::OutcomeUnknown { .. }
                );
                failure(&error, explained)
            }
        };
    }

    /// Writes as well what it reads, if nobody else reads.
    pub(crate) async fn try_upgrade(&self) -> Result<Option<Guard>, Error> {
        match &self.guard {
            Some(Guard::Read(guard)) => Ok(guard.try_upgrade().await?.map(Guard::Write)),
            _ => Ok(None),
        }
    }

    /// Goes on reading what it writes.
    pub(crate) async fn downgrade(mut self, attempt: Attempt) -> Option<Self> {
        match self.take()? {
            Guard::Write(guard) => {
                attempt.answered(guard.downgrade().await.map(Guard::Read).map(Some))
            }
            _ => None,
        }
    }

    /// Waits until the guard is lost.
    pub(crate) async fn lost(&self) {
        if let Some(guard) = &self.guard {
            guard.lost().await;
        }
    }

    fn take(&mut self) -> Option<Guard> {
        self.look();
        let guard = self.guard.take()?;
        self.attempt.note(now(), What::Leaving);
        Some(guard)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// When a guard that is not lost would be so, reckoned from a moment just before it was asked.
fn deadline(guard: &Guard, before: Nanos) -> Option<Nanos> {
    let held = !guard.is_lost();
    held.then(|| before + nanos(guard.remaining()))
}

fn failure(error: &Error, explained: bool) -> Outcome {
    let text = format!("{error:?}");
    match explained {
        true => Outcome::Failed(text),
        false => Outcome::Broken(text),
    }
}
