//! The handle.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockyard_core::__private::{Arg, Counted, Counter, Moment, Once, Runtime, Script, Until};
use lockyard_core::Error;

static COUNTER: LazyLock<Counter> = LazyLock::new(|| Counter {
    set: Script::new(lockyard_lua::latch::SET),
    count: Script::new(lockyard_lua::latch::COUNT),
    down: Script::new(lockyard_lua::latch::DOWN),
});

const PARTS: [&str; 2] = ["ops", "open"];

/// For how long a latch is kept that is given no life time.
const LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The bounds of a life time.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A count that processes count down together, and for whose end any number of them wait.
///
/// A latch that was never set is open, and so is one that was counted down to zero, deleted, or kept for longer than its
/// life time: then nobody waits.
/// A wait is for the latch that it finds: it ends when that latch is not counted down any more, for whatever reason,
/// also when another one has been set under its name in the meantime.
///
/// No count-down counts twice, however often its command comes, and none that was answered counts for a latch that was
/// set later; one that still goes on in the background counts for the latch that it finds.
/// Unlike a lock, a latch knows nothing of processes that die: what they have not counted down by then stays, until
/// somebody else counts it down or the latch's life time is over.
///
/// All who wait in all processes are told at once, by one message of whoever counts down to zero; a client that misses
/// it finds out within a third of the waiter timeout.
///
/// # Examples
///
/// ```no_run
/// # use lockyard_latch::Latch;
/// # async fn load(shard: u32) {}
/// # async fn example(loaded: Latch, shard: u32) -> Result<(), lockyard_core::Error> {
/// // let loaded = client.latch("import:2025-06-01");
/// loaded.try_set_count(16).await?; // whoever comes first sets it
/// load(shard).await;
/// loaded.count_down().await?;
/// loaded.wait().await?; // until all 16 are loaded, wherever
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Latch {
    runtime: Arc<Runtime>,
    name: Arc<str>,
    /// `None` if the name is invalid, which the first use reports.
    counted: Option<Counted>,
    life: Duration,
}

impl Latch {
    #[doc(hidden)]
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, name: &str) -> Self {
        let counted = |named| Counted {
            counter: &COUNTER,
            named,
        };
        Self {
            runtime: runtime.clone(),
            name: name.into(),
            counted: runtime.named("latch", &PARTS, name).ok().map(counted),
            life: LIFE,
        }
    }

    /// The latch's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same latch, under a label of its own in metrics, where its name does not appear.
    ///
    /// It means something only with the feature `metrics` of the crate `lockyard`.
    #[must_use]
    pub fn with_label(mut self, label: impl AsRef<str>) -> Self {
        if let Some(counted) = &mut self.counted {
            Arc::make_mut(&mut counted.named).label = Some(label.as_ref().into());
        }
        self
    }

    /// The same latch, which opens by itself so long after it was set.
    ///
    /// A life time below 10 ms or above 10 years is [`Error::InvalidOption`] when the latch is set; fractions of a
    /// millisecond round up.
    /// Defaults to 30 days.
    #[must_use]
    pub fn with_life_time(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Sets the count if the latch is open, and tells whether it has; `false` if it is being counted down already.
    ///
    /// A count of zero sets nothing, and tells only whether the latch is open.
    ///
    /// # Redis
    ///
    /// One round trip.
    ///
    /// # Cancel safety
    ///
    /// The latch may or may not have been set.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`], and [`Error::InvalidOption`] for the life time, before anything is sent.
    /// [`Error::OutcomeUnknown`] if there was no answer: then the latch may have been set, but it will not be set later;
    /// [`Error::Unreachable`] after an operation timeout without a connection.
    /// [`Error::WrongType`], [`Error::Refused`] with what the server said; [`Error::UnexpectedReply`] if the script
    /// answered what this version does not know; [`Error::Closed`] after a shutdown.
    pub async fn try_set_count(&self, count: u32) -> Result<bool, Error> {
        let counted = self.counted()?;
        if !(SHORTEST..=LONGEST).contains(&self.life) {
            return Err(Error::InvalidOption {
                option: "life time",
                reason: "a latch lives between 10 ms and 10 years",
            });
        }
        let life = self.life.as_nanos().div_ceil(1_000_000) as u64;
        let incarnation = self.runtime.fresh_name();
        let once = Once {
            script: &counted.counter.set,
            named: &counted.named,
            until: Until::Try,
            alone: true,
        };
        let args = |_| {
            vec![
                u64::from(count).into(),
                Arg::Text(incarnation.clone()),
                life.into(),
            ]
        };
        let error = match self.runtime.once(once, args).await {
            Ok((answer, _)) => return Ok(answer == 1),
            Err(error) => error,
        };
        // What was not answered may be there to see.
        let unanswered = matches!(error, Error::OutcomeUnknown { .. });
        let seen = match unanswered && count > 0 {
            true => self.runtime.counting(counted).await.ok().flatten(),
            false => None,
        };
        match seen.is_some_and(|seen| seen.incarnation == incarnation) {
            true => Ok(true),
            false => Err(error),
        }
    }

    /// Counts down by one, and tells how much is left; zero if the latch is open.
    ///
    /// # Redis
    ///
    /// Two round trips: one finds which latch there is, so that what is sent again counts for no other; calls that are
    /// made meanwhile go together.
    ///
    /// # Cancel safety
    ///
    /// From its first poll on, the count-down is made exactly once: dropped, it goes on in the background.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] before anything is sent.
    /// [`Error::OutcomeUnknown`] if it was not answered within the operation timeout: then it goes on in the background
    /// until it is answered, and is not to be repeated.
    /// [`Error::WrongType`], [`Error::Refused`] with what the server said, if the count-down surely was not made;
    /// [`Error::UnexpectedReply`] if the script answered what this version does not know; [`Error::Closed`] after a
    /// shutdown.
    pub async fn count_down(&self) -> Result<u64, Error> {
        self.count_down_by(1).await
    }

    /// Counts down by so many at once, but never below zero, and tells how much is left.
    ///
    /// [`u32::MAX`] opens the latch, whatever is left.
    ///
    /// # Redis
    ///
    /// As [`count_down`](Self::count_down).
    ///
    /// # Cancel safety
    ///
    /// As [`count_down`](Self::count_down).
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down).
    pub async fn count_down_by(&self, by: u32) -> Result<u64, Error> {
        self.runtime.count_down(self.counted()?, by.into()).await
    }

    /// How much is left to count down; zero if the latch is open.
    ///
    /// # Redis
    ///
    /// One round trip.
    ///
    /// # Cancel safety
    ///
    /// It only reads, so nothing is left behind.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] before anything is sent; [`Error::WrongType`], [`Error::Refused`] with what the server
    /// said; [`Error::Unreachable`] after one operation timeout; [`Error::UnexpectedReply`] if the script answered what
    /// this version does not know; [`Error::Closed`] after a shutdown.
    pub async fn count(&self) -> Result<u64, Error> {
        let seen = self.runtime.counting(self.counted()?).await?;
        Ok(seen.map_or(0, |seen| seen.count))
    }

    /// Waits until the latch is open: counted down to zero, deleted, its life time over, or another one set in its
    /// place.
    ///
    /// While the server cannot be reached it goes on trying.
    ///
    /// # Redis
    ///
    /// Two round trips to begin with, and one every third of the waiter timeout, for all who wait in this client
    /// together.
    /// A client that may not subscribe, or [spins](lockyard_core::Waiting::Spin), looks with a back-off between 10 ms and
    /// 250 ms instead.
    ///
    /// # Cancel safety
    ///
    /// It leaves nothing behind, and can be called again; then it waits for the latch that there is by then.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count), but for [`Error::Unreachable`].
    pub async fn wait(&self) -> Result<(), Error> {
        let opened = self.opened(Moment::NEVER).await?;
        debug_assert!(opened, "never is not over");
        Ok(())
    }

    /// Waits until the latch is open, but not longer than so long, and tells whether it is.
    ///
    /// A wait of zero is one full attempt.
    ///
    /// # Redis
    ///
    /// As [`wait`](Self::wait); one round trip for a wait of zero.
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count); [`Error::Unreachable`] if the server could not be asked before the wait ended.
    pub async fn wait_for(&self, wait: Duration) -> Result<bool, Error> {
        if wait.is_zero() {
            return Ok(self.count().await? == 0);
        }
        let until = self.runtime.after(wait);
        self.opened(until).await
    }

    async fn opened(&self, until: Moment) -> Result<bool, Error> {
        let counted = self.counted()?;
        let work = self.runtime.opened(counted, until);
        self.runtime
            .measured(&*counted.named, work, |opened| *opened)
            .await
    }

    fn counted(&self) -> Result<&Counted, Error> {
        match &self.counted {
            Some(counted) => Ok(counted),
            None => Err(self
                .runtime
                .named("latch", &PARTS, &self.name)
                .expect_err("it was refused before")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latches_and_their_futures_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        fn sent(_: impl Send) {}
        check::<Latch>();
        // Not run: that it compiles is the test.
        let _ = |latch: &Latch| {
            sent(latch.try_set_count(1));
            sent(latch.count_down());
            sent(latch.count_down_by(1));
            sent(latch.count());
            sent(latch.wait());
            sent(latch.wait_for(Duration::ZERO));
        };
    }
}
