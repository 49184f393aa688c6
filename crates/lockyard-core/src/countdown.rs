//! Counting down: what a client has counted is sent until the server has it.
//!
//! 1. A client sends ranges of all that it has counted, `[acknowledged, total)`, so one that comes twice, late or
//!    behind a later one counts nothing twice.
//! 2. A range is for one incarnation, seen after its calls were made; it is sent for no other.
//! 3. What has been sent is sent until it is answered, whoever still waits for that; the watchdog does it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use fred::error::{Error as FredError, ErrorKind};

use crate::backend::{Arg, Fault, Lane, Moment, Reply};
use crate::backoff::Backoff;
use crate::books::{Next, Range};
use crate::core::Core;
use crate::counter::Counted;
use crate::error::Error;
use crate::runtime::Runtime;

/// Begins to send what nobody sends yet; called by the watchdog.
pub(crate) fn begin(core: &Arc<Core>) {
    for counted in core.books.begin() {
        tokio::spawn(send(core.clone(), counted));
    }
}

/// Sends until nothing is pending, or the client has ended and had its time.
async fn send(core: Arc<Core>, counted: Counted) {
    let key = counted.key();
    let mut backoff = Backoff::retry();
    let mut last = Moment::NEVER;
    while let Some(next) = core.books.next(key) {
        if core.closing.load(SeqCst) {
            last = last.min(core.now().after(core.valid()));
        }
        match attempt(&core, &counted, next).await {
            Ok(()) => backoff = Backoff::retry(),
            Err(Again) if core.now() >= last => core.books.answer(key, usize::MAX, &Err(ended())),
            Err(Again) => backoff.sleep(&core, last).await,
        }
    }
    core.finished.notify_waiters();
    core.wake.notify_one();
}

/// There is something to try again.
struct Again;

async fn attempt(core: &Core, counted: &Counted, next: Next) -> Result<(), Again> {
    match next {
        Next::Ask(calls) => ask(core, counted, calls).await,
        Next::Range(range) => send_range(core, counted, range).await,
    }
}

async fn ask(core: &Core, counted: &Counted, calls: usize) -> Result<(), Again> {
    let (books, key) = (&core.books, counted.key());
    match counted.look(core).await {
        Ok(Some(counting)) => books.seen(key, calls, counting),
        Ok(None) => books.answer(key, calls, &Ok(0)),
        Err(fault) if fault.passes() => return Err(Again),
        Err(fault) => books.answer(key, calls, &Err(fault)),
    }
    Ok(())
}

async fn send_range(core: &Core, counted: &Counted, range: Range) -> Result<(), Again> {
    let (books, key) = (&core.books, counted.key());
    let args = [
        range.incarnation.clone().into(),
        Arg::Text(core.client.clone().into()),
        range.from.into(),
        range.to.into(),
        counted.channel().clone().into(),
    ];
    let down = &counted.counter.down;
    let sent = core.call(Lane::Watchdog, down, counted.keys(), &args, core.valid());
    match sent.await {
        // What the calls were for is open by now.
        Ok((Reply::Number(-1), _)) => books.answer(key, range.calls, &Ok(0)),
        Ok((Reply::Number(left @ 0..), _)) => {
            books.answer(key, range.calls, &Ok(left.unsigned_abs()))
        }
        Ok(_) => books.answer(key, range.calls, &Err(Fault::Unreadable)),
        Err(fault) if fault.passes() => return Err(Again),
        Err(fault) => {
            if !books.refuse(key, &range, &fault) {
                return Err(Again);
            }
        }
    }
    Ok(())
}

impl Runtime {
    /// Counts down, and answers how much is left; from its first poll on it is done, whatever becomes of the future.
    ///
    /// # Errors
    ///
    /// [`Error::OutcomeUnknown`] after one operation timeout; it goes on in the background.
    pub async fn count_down(&self, counted: &Counted, by: u64) -> Result<u64, Error> {
        let core = self.core();
        self.open()?;
        let told = core.books.register(counted, by);
        core.wake.notify_one();
        let answer = async { told.await.unwrap_or_else(|_| Err(ended())) };
        let name = &counted.named.name;
        let answer = core.in_time(answer, core.valid()).await;
        answer.map_err(|fault| match fault {
            Fault::Unanswered(_) => core.unknown(name, fault),
            fault => core.error(name, fault),
        })
    }
}

fn ended() -> Fault {
    Fault::Unanswered(FredError::new(ErrorKind::Canceled, "the client has ended"))
}
