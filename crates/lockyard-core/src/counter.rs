//! What a primitive that counts down is made of, and what its server answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::backend::{Arg, Fault, Lane, Reply};
use crate::core::Core;
use crate::error::Error;
use crate::named::Named;
use crate::reply::{millis, number};
use crate::runtime::Runtime;
use crate::script::Script;

/// The scripts of a primitive that counts down, as in `lua/latch`.
#[derive(Debug)]
pub struct Counter {
    /// Sets a count; sent once.
    pub set: Script,
    /// Tells the count, what it is called, and how much a client has counted down.
    pub count: Script,
    /// Counts a range down, and tells all who wait when nothing is left.
    pub down: Script,
}

/// A counter of one name: its main key, its clients' part, and its channel.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The scripts.
    pub counter: &'static Counter,
    /// Name and keys; the last is the channel.
    pub named: Arc<Named>,
}

/// What there is to count down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counting {
    /// How much is left.
    pub count: u64,
    /// The name of this counting, which no other ever has.
    pub incarnation: Bytes,
    /// When it ends by itself.
    pub(crate) ends: Duration,
    /// How much this client has counted down.
    pub(crate) seen: u64,
}

impl Counted {
    pub(crate) fn key(&self) -> &Bytes {
        &self.named.keys[0]
    }

    pub(crate) fn channel(&self) -> &Bytes {
        &self.named.keys[2]
    }

    /// The keys of the scripts.
    pub(crate) fn keys(&self) -> &[Bytes] {
        &self.named.keys[..2]
    }

    /// Asks once, over the watchdog's connection; nothing if nothing is counted.
    pub(crate) async fn look(&self, core: &Core) -> Result<Option<Counting>, Fault> {
        let args = [Arg::Text(core.client.clone().into())];
        let count = &self.counter.count;
        let reply = core.call(Lane::Watchdog, count, self.keys(), &args, core.valid());
        let (reply, _) = reply.await?;
        counting(&reply).ok_or(Fault::Unreadable)
    }
}

impl Runtime {
    /// Asks what is left of a counter, until that is answered or the operation timeout is over.
    ///
    /// # Errors
    ///
    /// Why there is no reply.
    pub async fn counting(&self, counted: &Counted) -> Result<Option<Counting>, Error> {
        let args = [Arg::Text(self.core().client.clone().into())];
        let (name, count) = (&counted.named.name, &counted.counter.count);
        let reply = self.ask(name, count, counted.keys(), &args).await?;
        counting(&reply).ok_or_else(|| Error::UnexpectedReply { name: name.clone() })
    }
}

/// Reads `{count, incarnation, ms until it ends, how much the client has counted down}`.
fn counting(reply: &Reply) -> Option<Option<Counting>> {
    let Reply::Array(parts) = reply else {
        return None;
    };
    let [
        Reply::Number(count),
        Reply::Text(incarnation),
        Reply::Number(ends),
        Reply::Number(seen),
    ] = &parts[..]
    else {
        return None;
    };
    Some((*count > 0).then_some(Counting {
        count: number(*count)?,
        incarnation: incarnation.clone(),
        ends: millis(*ends),
        seen: number(*seen)?,
    }))
}
