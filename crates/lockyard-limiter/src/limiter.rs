//! The handle.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use lockyard_core::__private::{Arg, Named, Once, Runtime, Script, Until};
use lockyard_core::Error;

use crate::decision::{Decision, Quota, Verdict};
use crate::info::RateLimiterInfo;
use crate::rate::{LONGEST, Rate};

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(lockyard_lua::rate::TAKE));
static INSPECT: LazyLock<Script> = LazyLock::new(|| Script::new(lockyard_lua::rate::INSPECT));

/// A limit to how many permits are granted in what time, over all processes: GCRA, by the server's clock.
///
/// Permits are granted evenly, and after a pause up to a burst of them at once; see [`Rate`].
/// Order of arrival at the server is order of service: whoever waits has taken its permits already, and sleeps until
/// they are due; nobody gets any in between, and nobody asks twice.
/// A dropped wait does not give its permits back: in the order of those that have been told their time there is no place
/// for them any more.
/// So bound each wait with [`try_acquire_for`](Self::try_acquire_for) where callers may hang up.
///
/// The rate belongs to the handle, and the server keeps only what is owed: handles of one name are meant to have the
/// same rate.
/// When the rate changes, what has been granted stays counted, and is paid back at the new rate from the next call on.
/// Nothing is left on the server when nothing is owed, and nothing on it is held, so there is nothing to release when a
/// process dies.
///
/// When the server's clock is stepped forward, what is owed shrinks by the step; when it is stepped back, what is owed
/// shrinks from the next call on as before.
/// Waits are counted by the client's own clock, which no step touches.
///
/// # What a call costs
///
/// One round trip, also for a wait.
/// While six commands that take permits are under way, further ones of the same client are gathered and sent as one
/// command; then a call takes two round trips.
///
/// # Examples
///
/// ```no_run
/// # use lockyard_limiter::RateLimiter;
/// # async fn example(api: RateLimiter) -> Result<u16, lockyard_core::Error> {
/// // let api = client.rate_limiter("api:tenant-7", Rate::per_second(100).burst(20));
/// let decision = api.try_acquire(1).await?;
/// if let Some(after) = decision.retry_after() {
///     println!("Retry-After: {}", after.as_secs() + 1);
///     return Ok(429);
/// }
/// # Ok(200)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RateLimiter {
    runtime: Arc<Runtime>,
    name: Arc<str>,
    /// `None` if the name is invalid, which the first use reports.
    named: Option<Arc<Named>>,
    rate: Rate,
    /// The µs for which a permit is owed, as the script reads it.
    interval: Bytes,
}

impl RateLimiter {
    #[doc(hidden)]
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, name: &str, rate: Rate) -> Self {
        Self {
            runtime: runtime.clone(),
            name: name.into(),
            named: runtime.named("rate", &[], name).ok(),
            rate,
            interval: (rate.interval_ns() / 1000.0).to_string().into(),
        }
    }

    /// The limiter's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same limiter, under a label of its own in metrics, where its name does not appear.
    ///
    /// It means something only with the feature `metrics` of the crate `lockyard`.
    #[must_use]
    pub fn with_label(mut self, label: impl AsRef<str>) -> Self {
        if let Some(named) = &mut self.named {
            Arc::make_mut(named).label = Some(label.as_ref().into());
        }
        self
    }

    /// The rate of this handle.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes permits, and waits as long as it takes until they are due.
    ///
    /// What was left when the server decided comes back.
    /// While the server cannot be reached it goes on trying, as long as it surely has taken nothing.
    ///
    /// # Redis
    ///
    /// One round trip, [two if many calls are under way](Self#what-a-call-costs).
    ///
    /// # Cancel safety
    ///
    /// Dropped before the command is sent, it takes nothing; later, the permits stay spent.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`], [`Error::InvalidRate`], and [`Error::InvalidPermits`] for no permits or more than the
    /// burst, before anything is sent.
    /// [`Error::OutcomeUnknown`] if the command was sent and not answered: the permits may be spent, and it is not sent
    /// again.
    /// [`Error::InvalidRate`] as well if those who came before wait for 10 years.
    /// [`Error::WrongType`], [`Error::Refused`] with what the server said; [`Error::UnexpectedReply`] if the script
    /// answered what this version does not know; [`Error::Closed`] after a shutdown.
    pub async fn acquire(&self, permits: u32) -> Result<Quota, Error> {
        match self.take(permits, Until::Never).await? {
            Decision::Allowed(quota) => Ok(quota),
            Decision::Denied { .. } => Err(Error::InvalidRate {
                name: self.name.to_string(),
                reason: "others wait already for longer than 10 years",
            }),
        }
    }

    /// Takes permits if they can be had at once, or tells exactly when they could be.
    ///
    /// If the server cannot be reached it goes on trying for one operation timeout, as long as it surely has taken
    /// nothing.
    ///
    /// # Redis
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Error::Unreachable`] if there was no connection for one operation timeout.
    pub async fn try_acquire(&self, permits: u32) -> Result<Decision, Error> {
        self.take(permits, Until::Try).await
    }

    /// Takes permits if they are due within `wait`, and waits until they are; else it takes nothing, and tells at once
    /// when they could be had.
    ///
    /// The server decides, so there is no wait that ends in vain.
    ///
    /// # Redis
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Error::Unreachable`] if there was no connection until the wait ended.
    pub async fn try_acquire_for(&self, permits: u32, wait: Duration) -> Result<Decision, Error> {
        let until = match wait {
            Duration::ZERO => Until::Try,
            wait => Until::At(self.runtime.after(wait)),
        };
        self.take(permits, until).await
    }

    /// How many permits are owed, and for how long, whatever this handle's rate; it takes nothing.
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
    pub async fn inspect(&self) -> Result<RateLimiterInfo, Error> {
        let named = self.named()?;
        let reply = self.runtime.ask(&named.name, &INSPECT, &named.keys, &[]);
        RateLimiterInfo::read(&reply.await?).ok_or_else(|| Error::UnexpectedReply {
            name: named.name.clone(),
        })
    }

    async fn take(&self, permits: u32, until: Until) -> Result<Decision, Error> {
        let named = self.checked(permits)?;
        let work = self.ask(named, permits, until);
        self.runtime
            .measured(&**named, work, Decision::is_allowed)
            .await
    }

    async fn ask(&self, named: &Arc<Named>, permits: u32, until: Until) -> Result<Decision, Error> {
        let once = Once {
            script: &TAKE,
            named,
            until,
            alone: false,
        };
        let args = |left: Duration| {
            vec![
                self.interval.clone().into(),
                u64::from(self.rate.max_burst()).into(),
                u64::from(permits).into(),
                Arg::Number(left.min(LONGEST).as_micros() as u64),
            ]
        };
        let (value, received) = self.runtime.once(once, args).await?;
        let verdict = Verdict::read(value, &self.rate, permits);
        let (wait, quota) = (verdict.wait, verdict.quota);
        if !verdict.taken {
            return Ok(Decision::Denied {
                retry_after: wait,
                quota,
            });
        }
        if !wait.is_zero() {
            // From when the answer had come, as the server decided before that.
            self.runtime.sleep_until(received.after(wait)).await?;
        }
        Ok(Decision::Allowed(quota))
    }

    /// Refuses what could never be granted.
    fn checked(&self, permits: u32) -> Result<&Arc<Named>, Error> {
        let named = self.named()?;
        if let Some(reason) = self.rate.fault() {
            let name = self.name.to_string();
            return Err(Error::InvalidRate { name, reason });
        }
        let most = self.rate.max_burst();
        if permits == 0 || permits > most {
            return Err(Error::InvalidPermits {
                name: self.name.to_string(),
                permits: permits.into(),
                most: most.into(),
            });
        }
        Ok(named)
    }

    fn named(&self) -> Result<&Arc<Named>, Error> {
        match &self.named {
            Some(named) => Ok(named),
            None => Err(self
                .runtime
                .named("rate", &[], &self.name)
                .expect_err("it was refused before")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limiters_and_their_futures_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        fn sent(_: impl Send) {}
        check::<RateLimiter>();
        // Not run: that it compiles is the test.
        let _ = |limiter: &RateLimiter| {
            sent(limiter.acquire(1));
            sent(limiter.try_acquire(1));
            sent(limiter.try_acquire_for(1, Duration::ZERO));
            sent(limiter.inspect());
        };
    }
}
