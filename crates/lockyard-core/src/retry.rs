//! Trying again, for a while, what a server did not answer or cannot do for now.

use crate::backend::{Fault, Moment};
use crate::backoff::Backoff;
use crate::core::Core;
use crate::error::ServerError;

pub(crate) struct Retry<'a> {
    core: &'a Core,
    until: Moment,
    backoff: Backoff,
    /// What the server said last.
    said: Option<ServerError>,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(core: &'a Core, until: Moment) -> Self {
        Self {
            core,
            until,
            backoff: Backoff::retry(),
            said: None,
        }
    }

    /// Waits until the next try; answers the fault to report if there is to be none.
    pub(crate) async fn after(&mut self, fault: Fault) -> Result<(), Fault> {
        self.may_go_on(fault)?;
        self.sleep().await;
        Ok(())
    }

    /// Answers the fault if another try may do better, and as an error the fault to report if not.
    pub(crate) fn may_go_on(&mut self, fault: Fault) -> Result<Fault, Fault> {
        if let Fault::Refused(error) = &fault {
            self.said = Some(error.clone());
        }
        if fault.passes() && self.core.now() < self.until {
            return Ok(fault);
        }
        // A server that is replaced because of what it said is out of reach meanwhile, which tells less.
        Err(match (fault, self.said.take()) {
            (Fault::Unanswered(_), Some(error)) => Fault::Refused(error),
            (fault, _) => fault,
        })
    }

    pub(crate) async fn sleep(&mut self) {
        self.backoff.sleep(self.core, self.until).await;
    }
}
