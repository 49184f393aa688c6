//! The release of a hold's last guard.

use std::time::Duration;

use bytes::Bytes;

use crate::acquire::GRACE;
use crate::backend::{Arg, Fault, Lane};
use crate::core::Core;
use crate::error::{Error, ServerError};
use crate::gather::{self, Item};
use crate::hold::Hold;
use crate::inbox;
use crate::leaving::Last;
use crate::metrics::{self, Loss};
use crate::reply::{self, Answer};
use crate::retry::Retry;

impl Hold {
    pub(crate) async fn release_last(&self, last: &Last) -> Result<(), Error> {
        let core = self.core();
        let background = Background {
            core,
            leaving: &last.leaving,
        };
        let until = core.now().after(core.valid()).min(last.deadline);
        let mut retry = Retry::new(core, until);
        let mut first = true;
        loop {
            let left = until.since(core.now()).min(core.valid() / 3);
            // The last try has time for its answer, or "unreachable" would hide what the server said before.
            let fault = match self
                .try_release(&last.leaving, first, left.max(GRACE))
                .await
            {
                Ok((more, answer)) => {
                    if !more {
                        background.done();
                    }
                    // Absent in answer to a second sending: the first one did it.
                    return match answer {
                        Answer::Absent if first => {
                            metrics::lost(&self.spec, Loss::Gone);
                            Err(self.lease_lost())
                        }
                        _ => Ok(()),
                    };
                }
                Err(fault) => fault,
            };
            first = false;
            if let Err(fault) = retry.after(fault).await {
                return Err(match fault.passes() {
                    true => core.unknown(&self.spec.name, fault),
                    false => core.error(&self.spec.name, fault),
                });
            }
        }
    }

    /// Releases once: whether more waiters can be served, and what became of the hold.
    async fn try_release(
        &self,
        leaving: &[(u64, Bytes)],
        first: bool,
        timeout: Duration,
    ) -> Result<(bool, Answer), Fault> {
        let mut args = vec![
            Arg::Text(self.core().inbox.clone()),
            Arg::Number(leaving.len() as u64),
        ];
        args.extend(leaving.iter().map(|(_, entry)| Arg::Text(entry.clone())));
        let item = Item {
            script: &self.spec.family.release,
            keys: self.spec.clone(),
            args,
            shared: 1,
            answers: leaving.len(),
        };
        // A silent line is not asked twice: a release may come twice, so the second goes over another one.
        let reply = match first {
            true => gather::call(self.core(), item, timeout).await,
            false => item.alone(self.core(), Lane::Watchdog, timeout).await,
        };
        let (reply, _) = reply?;
        let mut released = reply::released(&reply, leaving.len()).ok_or(Fault::Unreadable)?;
        // Should the next holder be ours, it need not wait for its message.
        inbox::on_messages(self.core(), &released.news);
        match released.answers.pop() {
            Some(Answer::Error(text)) => Err(Fault::Refused(ServerError::new(text))),
            answer => Ok((released.more, answer.unwrap_or(Answer::Absent))),
        }
    }
}

/// Leaves a release to the watchdog, unless it is done here.
struct Background<'a> {
    core: &'a Core,
    leaving: &'a [(u64, Bytes)],
}

impl Background<'_> {
    fn done(self) {
        self.core
            .with(|state| self.leaving.iter().for_each(|(seq, _)| state.finish(*seq)));
        self.core.finished.notify_waiters();
        std::mem::forget(self);
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        self.core
            .with(|state| state.release_in_background(self.leaving, self.core.now()));
    }
}
