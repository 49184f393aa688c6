//! What handles, guards and the watchdog of one client share.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bytes::Bytes;
use fred::error::{Error as FredError, ErrorKind};
use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::alarm::Alarm;
use crate::backend::{Arg, Backend, Call, Fault, Lane, Moment, Reply};
use crate::books::Books;
use crate::error::{Error, ServerErrorKind};
use crate::openings::Openings;
use crate::options::ClientOptions;
use crate::script::Script;
use crate::state::State;
use crate::sync::Sync;

/// A client's parts behind its handles.
pub(crate) struct Core {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) uuid: Uuid,
    /// The client's name in hold ids and in its inbox's channel.
    pub(crate) client: String,
    pub(crate) prefix: String,
    /// What every client's inbox begins with.
    pub(crate) inbox: Bytes,
    /// What an acquire says of waiting: `waiter timeout in ms|inbox`.
    pub(crate) terms: Bytes,
    pub(crate) options: ClientOptions,
    numbers: AtomicU64,
    state: Mutex<State>,
    /// What is counted down.
    pub(crate) books: Books,
    /// Where somebody waits for a count of zero.
    pub(crate) openings: Openings,
    /// Wakes the watchdog.
    pub(crate) wake: Notify,
    /// Told when an id is finished, for a shutdown that waits for all.
    pub(crate) finished: Notify,
    /// Whether the last handle is gone or the client shut down.
    pub(crate) closing: AtomicBool,
    /// Whether tasks wait with others for a place; by the time it is read that may have changed.
    pub(crate) crowded: AtomicBool,
    /// Whether one script may only touch keys of one slot.
    pub(crate) per_slot: AtomicBool,
}

impl Core {
    pub(crate) fn new(backend: Arc<dyn Backend>, options: ClientOptions) -> Self {
        let uuid = Uuid::from_u64_pair(backend.random(), backend.random());
        let inbox = inbox_prefix(&options.prefix);
        let terms = format!("{}|{inbox}", options.waiter_timeout.as_millis());
        Self {
            uuid,
            client: uuid.to_string(),
            inbox: inbox.into(),
            terms: terms.into(),
            prefix: options.prefix.clone(),
            state: Mutex::new(State::new(
                options.operation_timeout,
                options.waiter_timeout,
            )),
            backend,
            options,
            numbers: AtomicU64::new(1),
            books: Books::default(),
            openings: Openings::default(),
            wake: Notify::new(),
            finished: Notify::new(),
            closing: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            per_slot: AtomicBool::new(false),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.backend.now()
    }

    /// A number never used before in this client.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, SeqCst)
    }

    /// How long a command and its tries may take, and how long after its sending an acquire is valid.
    pub(crate) fn valid(&self) -> Duration {
        self.options.operation_timeout
    }

    /// Works on the state, and wakes the watchdog if something is due before it would wake by itself.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = work(&mut state);
        self.crowded.store(!state.rooms.is_empty(), Relaxed);
        if state
            .sleeps_until
            .is_some_and(|until| state.next_wake().is_some_and(|wake| wake < until))
        {
            state.sleeps_until = None;
            self.wake.notify_one();
        }
        result
    }

    /// A third of the waiter timeout, and up to a tenth less, so that clients fall out of step.
    pub(crate) fn look_interval(&self) -> Duration {
        let third = self.options.waiter_timeout / 3;
        third - third.mul_f64(self.fraction() * 0.1)
    }

    /// How long a waiter waits with its look, when the server says after what time one may find something new.
    pub(crate) fn look_in(&self, look: Duration) -> Duration {
        look.saturating_add(Duration::from_millis(1))
            .min(self.look_interval())
    }

    /// A random number in [0, 1).
    pub(crate) fn fraction(&self) -> f64 {
        (self.backend.random() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Sleeps until a moment by the backend's clock.
    pub(crate) fn sleep_until(&self, until: Moment) -> Alarm<'_> {
        Alarm::new(self, until)
    }

    /// Runs a script once, with a deadline; answers the reply and just before when the command was sent.
    pub(crate) async fn call(
        &self,
        lane: Lane,
        script: &Script,
        keys: &[Bytes],
        args: &[Arg],
        timeout: Duration,
    ) -> Result<(Reply, Moment), Fault> {
        let sent = self.now();
        let run = self.backend.run(lane, Call { script, keys, args });
        let reply = self.in_time(run, timeout).await;
        match reply {
            Ok(reply) => Ok((reply, sent)),
            Err(fault) => {
                if fault.wants_a_new_connection(lane, timeout >= self.valid() / 3) {
                    self.backend.reconnect(lane);
                }
                Err(fault)
            }
        }
    }

    /// Asks the server for its time.
    pub(crate) async fn sync(&self, lane: Lane, timeout: Duration) -> Result<(), Fault> {
        let sent = self.now();
        let us = self.backend.server_time(lane);
        self.synced(sent, self.in_time(us, timeout).await?);
        Ok(())
    }

    /// A reply with the server's time has come.
    pub(crate) fn synced(&self, sent: Moment, us: u64) {
        let sync = Sync {
            sent,
            received: self.now(),
            us,
        };
        self.with(|state| state.answered(sync));
    }

    /// The result of work that ends in time.
    pub(crate) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, Fault>>,
        timeout: Duration,
    ) -> Result<T, Fault> {
        let until = self.now().after(timeout);
        tokio::select! {
            biased;
            result = work => result,
            () = self.sleep_until(until) => Err(Fault::unanswered()),
        }
    }

    /// What a user is told of a fault.
    pub(crate) fn error(&self, name: &str, fault: Fault) -> Error {
        let server = self.backend.server().to_owned();
        match fault {
            Fault::Unanswered(source) => Error::Unreachable { server, source },
            Fault::Refused(source) if source.kind() == ServerErrorKind::WrongType => {
                Error::WrongType {
                    name: name.to_owned(),
                    source,
                }
            }
            Fault::Refused(source) => Error::Refused { server, source },
            Fault::Unreadable => Error::UnexpectedReply {
                name: name.to_owned(),
            },
        }
    }

    /// What a user is told of a fault that leaves unknown whether a command was carried out.
    pub(crate) fn unknown(&self, name: &str, fault: Fault) -> Error {
        Error::OutcomeUnknown {
            name: name.to_owned(),
            source: Box::new(self.error(name, fault)),
        }
    }
}

impl Fault {
    /// There was no answer in time.
    pub(crate) fn unanswered() -> Self {
        Self::Unanswered(FredError::new(ErrorKind::Timeout, "no answer in time"))
    }

    /// Whether the server has become a replica, or the connection has gone dead under commands that may all be sent
    /// again; `patient` if the answer had its time.
    fn wants_a_new_connection(&self, lane: Lane, patient: bool) -> bool {
        match self {
            Self::Refused(error) => error.kind() == ServerErrorKind::ReadOnly,
            Self::Unanswered(error) => {
                patient && lane == Lane::Watchdog && *error.kind() == ErrorKind::Timeout
            }
            Self::Unreadable => false,
        }
    }

    /// Whether the same command may succeed when sent again.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Unanswered(_) => true,
            Self::Refused(error) => error.kind().is_transient(),
            Self::Unreadable => false,
        }
    }
}

pub(crate) fn inbox_prefix(prefix: &str) -> String {
    format!("{prefix}inbox:")
}
