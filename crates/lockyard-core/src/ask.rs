//! One asking of an acquire: its hold id, registered before anything is sent.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::acquire::{Acquire, Wait};
use crate::backend::Arg;
use crate::breakages::broken;
use crate::core::Core;
use crate::error::Error;
use crate::gather::Item;
use crate::id::{Id, Outcome, Terms};
use crate::options::Waiting;
use crate::owner::Owner;
use crate::runtime::Runtime;

pub(crate) struct Ask {
    pub(crate) claim: Claim,
    pub(crate) told: oneshot::Receiver<Outcome>,
    pub(crate) item: Item,
}

impl Acquire<'_> {
    /// Makes an id; `None` if the server's time has to be asked first.
    pub(crate) fn ask(&self) -> Result<Option<Ask>, Error> {
        let core = self.runtime.core();
        let seq = core.number();
        let lease = self.terms.lease.duration();
        let sent = core.now();
        let (entry, hold) = entry(core, seq, self.owner.as_ref(), self.terms);
        let (id, told) = Id::new(self.spec, self.owner.clone(), self.terms, &entry, sent);
        let registered = core.with(|state| {
            if state.closed {
                return Err(Error::Closed);
            }
            let sync = state
                .sync
                .and_then(|sync| sync.valid_until(sent, core.valid()));
            Ok(sync.map(|valid| {
                state.register(seq, id);
                (valid, state.inbox)
            }))
        })?;
        let Some((valid, inbox)) = registered else {
            return Ok(None);
        };
        let mode = match self.wait {
            Wait::Reenter => 'r',
            Wait::Upgrade => 'u',
            _ if self.waits() && inbox && core.options.waiting == Waiting::Queue => 'w',
            _ => 't',
        };
        let rest = std::str::from_utf8(&entry[hold.len() + 1..]).unwrap_or_default();
        let wish = format!("{mode}{rest}|{}", self.ticket);
        let args = vec![
            Arg::Number(valid),
            Arg::Text(core.terms.clone()),
            Arg::Text(hold),
            Arg::Number(lease.as_millis() as u64),
            Arg::Text(wish.into()),
        ];
        let claim = Claim::new(self.runtime, seq);
        let item = Item {
            script: &self.spec.family.acquire,
            keys: self.spec.clone(),
            args,
            shared: 2,
            answers: 3,
        };
        Ok(Some(Ask { claim, told, item }))
    }
}

/// `hold|kind|weight|lease|grant`, and the hold id at its beginning.
pub(crate) fn entry(core: &Core, seq: u64, owner: Option<&Owner>, terms: Terms) -> (Bytes, Bytes) {
    let client = &core.client;
    let seq = if broken("hold ids used again") {
        seq % 4
    } else {
        seq
    };
    let Terms { kind, weight, .. } = terms;
    let lease = terms.lease.duration();
    let grant = lease.min(core.options.waiter_timeout).as_millis();
    let lease = lease.as_millis();
    let mut entry = String::with_capacity(160);
    let written = match owner {
        Some(owner) => write!(entry, "{}/{client}.{seq}", owner.text()),
        None => write!(entry, "{client}:{seq}/{client}.{seq}"),
    };
    let hold = entry.len();
    let written = written.and_then(|()| write!(entry, "|{kind}|{weight}|{lease}|{grant}"));
    debug_assert!(written.is_ok(), "writing to a string never fails");
    let entry = Bytes::from(entry);
    (entry.clone(), entry.slice(..hold))
}

/// An id whose outcome nobody has taken yet; dropped, it is abandoned.
pub(crate) struct Claim {
    runtime: Arc<Runtime>,
    pub(crate) seq: u64,
    open: bool,
}

impl Claim {
    pub(crate) fn new(runtime: &Arc<Runtime>, seq: u64) -> Self {
        Self {
            runtime: runtime.clone(),
            seq,
            open: true,
        }
    }

    /// The id left nothing on the server.
    pub(crate) fn dismiss(mut self) {
        self.open = false;
        let core = self.runtime.core();
        core.with(|state| state.dismiss(self.seq, core.now()));
    }

    /// Its hold has become a guard's.
    pub(crate) fn taken(mut self) {
        self.open = false;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.open && !broken("a dropped acquire is forgotten") {
            let core = self.runtime.core();
            core.with(|state| state.abandon(self.seq, core.now()));
        }
    }
}
