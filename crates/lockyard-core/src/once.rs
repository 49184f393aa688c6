//! Commands that must not count twice, and whose outcome nobody can ask for later.
//!
//! 1. A command is sent once, and again only if the server says that it did nothing.
//! 2. It carries the server time after which it is refused as stale, so a late copy does nothing.
//! 3. If it has no answer, it is given up: it may have been done or not.
//!
//! Its script answers `{µs, then a value for each call}`: 0 for stale, an error's text, or what the primitive makes of
//! it.

use std::sync::Arc;
use std::time::Duration;

use fred::error::{Error as FredError, ErrorKind};

use crate::acquire::GRACE;
use crate::attempt::late;
use crate::backend::{Arg, Fault, Lane, Moment, Reply};
use crate::error::{Error, ServerError};
use crate::gather::{self, Item};
use crate::named::Named;
use crate::reply::{number, text_of};
use crate::retry::Retry;
use crate::runtime::Runtime;
use crate::script::Script;

/// A command that is sent once.
#[derive(Debug)]
pub struct Once<'a> {
    /// What runs; its first argument is the validity, the rest is repeated for each of several calls.
    pub script: &'static Script,
    /// On what.
    pub named: &'a Arc<Named>,
    /// Until when it may be tried while the server surely does nothing.
    pub until: Until,
    /// Whether the script takes one call only.
    pub alone: bool,
}

/// How long a caller is ready to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Not at all, but a server that cannot be reached has one operation timeout.
    Try,
    /// Until then.
    At(Moment),
    /// For ever.
    Never,
}

impl Runtime {
    /// The moment so much later.
    #[must_use]
    pub fn after(&self, wait: Duration) -> Moment {
        self.core().now().after(wait)
    }

    /// Runs a command with what `args` makes of the time that is left; answers its value, and when that had come.
    ///
    /// # Errors
    ///
    /// Why there is no value; after [`Error::OutcomeUnknown`] the command may have been done.
    pub async fn once(
        &self,
        once: Once<'_>,
        args: impl Fn(Duration) -> Vec<Arg>,
    ) -> Result<(i64, Moment), Error> {
        let core = self.core();
        let name = &once.named.name;
        let until = match once.until {
            Until::Try => core.now().after(core.valid()),
            Until::At(moment) => moment,
            Until::Never => Moment::NEVER,
        };
        let mut retry = Retry::new(core, until);
        loop {
            let left = match once.until {
                Until::Try => Duration::ZERO,
                Until::At(_) | Until::Never => until.since(core.now()),
            };
            let fault = match self.attempt(&once, until, args(left)).await? {
                Attempt::Answered(value, received) => return Ok((value, received)),
                Attempt::Undone(fault) => fault,
                Attempt::Failed(fault @ Fault::Unanswered(_)) => {
                    return Err(core.unknown(name, fault));
                }
                Attempt::Failed(fault) => return Err(core.error(name, fault)),
            };
            retry
                .after(fault)
                .await
                .map_err(|fault| core.error(name, fault))?;
        }
    }

    /// Sleeps until a moment.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the client was shut down meanwhile.
    pub async fn sleep_until(&self, moment: Moment) -> Result<(), Error> {
        self.core().sleep_until(moment).await;
        self.open()
    }

    async fn attempt(
        &self,
        once: &Once<'_>,
        until: Moment,
        mut args: Vec<Arg>,
    ) -> Result<Attempt, Error> {
        self.open()?;
        let core = self.core();
        let patience = until.since(core.now()).max(GRACE).min(core.valid());
        let valid = match self.valid(patience).await {
            Ok(valid) => valid,
            Err(fault) => return Ok(Attempt::undone(fault)),
        };
        args.insert(0, Arg::Number(valid));
        let item = Item {
            script: once.script,
            keys: once.named.clone(),
            args,
            shared: 1,
            answers: 1,
        };
        let answered = match once.alone {
            true => item.alone(core, Lane::Caller, patience).await,
            false => gather::call(core, item, patience).await,
        };
        let (reply, sent) = match answered {
            Ok(answered) => answered,
            Err(fault @ Fault::Refused(_)) => return Ok(Attempt::undone(fault)),
            Err(fault) => return Ok(Attempt::Failed(fault)),
        };
        let Some((us, answer)) = parts(&reply) else {
            return Ok(Attempt::Failed(Fault::Unreadable));
        };
        core.synced(sent, us);
        Ok(match answer {
            // The server's clock may have been stepped; now it is known anew.
            Reply::Number(0) => Attempt::Undone(Fault::Unanswered(late())),
            Reply::Number(value) => Attempt::Answered(*value, core.now()),
            Reply::Text(text) => Attempt::Failed(Fault::Refused(ServerError::new(text_of(text)))),
            _ => Attempt::Failed(Fault::Unreadable),
        })
    }

    /// The server time after which a command sent now is refused; asking for it can be repeated.
    async fn valid(&self, patience: Duration) -> Result<u64, Fault> {
        let core = self.core();
        if !core.backend.is_connected(Lane::Caller) {
            let why = "there is no connection";
            return Err(Fault::Unanswered(FredError::new(ErrorKind::IO, why)));
        }
        let valid = || core.with(|state| state.sync?.valid_until(core.now(), core.valid()));
        match valid() {
            Some(valid) => Ok(valid),
            None => {
                core.sync(Lane::Caller, patience).await?;
                valid().ok_or_else(|| Fault::Unanswered(late()))
            }
        }
    }
}

enum Attempt {
    Answered(i64, Moment),
    /// Nothing was done, and another attempt may do better.
    Undone(Fault),
    /// It may have been done, or trying again cannot help.
    Failed(Fault),
}

impl Attempt {
    fn undone(fault: Fault) -> Self {
        match fault.passes() {
            true => Self::Undone(fault),
            false => Self::Failed(fault),
        }
    }
}

/// The server's µs and the answer.
fn parts(reply: &Reply) -> Option<(u64, &Reply)> {
    let Reply::Array(parts) = reply else {
        return None;
    };
    match &parts[..] {
        [Reply::Number(us), answer] => Some((number(*us)?, answer)),
        _ => None,
    }
}
