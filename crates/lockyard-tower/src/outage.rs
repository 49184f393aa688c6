//! What a layer does while the limit's server cannot be asked.
//!
//! Whoever finds the server away has waited for its answer. So that not every request waits like this, the layer asks
//! no more for a pause; then one request asks again, and the others go on as before until it has an answer.
//!
//! Only an answer to what was asked after the latest failure is a sign that the server is back: a request that stood in
//! a queue before it went away has waited in vain, and knows nothing of it.

use std::sync::Arc;
use std::time::Duration;

use lockyard::Error;
use parking_lot::Mutex;
use tokio::time::Instant;

/// What becomes of requests while the limit's server cannot be asked: it is down, unreachable, or refuses.
///
/// Both are counted, in [`Counts::opened`](crate::Counts::opened) and [`Counts::closed`](crate::Counts::closed), and
/// the beginning and the end of such a time are logged.
///
/// A server that answers is not away: no permit, a name that is invalid, and data of another type under the key refuse
/// a request under both policies, so nobody gets round a limit by what is in the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenAway {
    /// They are let through, unlimited: the service does not depend on the limit's server.
    Open,
    /// They are refused with 503: what the limit protects stays protected.
    #[default]
    Closed,
}

/// Whether the server is away.
#[derive(Debug)]
pub(crate) struct Outage {
    /// For how long it is not asked again.
    pub(crate) pause: Duration,
    away: Mutex<Option<Away>>,
}

#[derive(Debug)]
struct Away {
    since: Instant,
    /// When the next request asks.
    until: Instant,
    why: Arc<Error>,
}

impl Outage {
    pub(crate) fn new(pause: Duration) -> Self {
        Self {
            pause,
            away: Mutex::new(None),
        }
    }

    /// Why the server is not asked now; `None` if the caller is to ask.
    pub(crate) fn why(&self) -> Option<Arc<Error>> {
        let mut away = self.away.lock();
        let away = away.as_mut()?;
        let now = Instant::now();
        if now < away.until {
            return Some(away.why.clone());
        }
        // The caller asks, and others only if it gets no answer for a pause.
        away.until = later(now, self.pause);
        None
    }

    /// Notes that the server could not be asked; whether it is news.
    pub(crate) fn begin(&self, why: &Arc<Error>) -> bool {
        let since = Instant::now();
        let away = Away {
            since,
            until: later(since, self.pause),
            why: why.clone(),
        };
        self.away.lock().replace(away).is_none()
    }

    /// Notes that what was asked then has been answered; whether it is news.
    pub(crate) fn end(&self, asked: Instant) -> bool {
        let mut away = self.away.lock();
        away.take_if(|away| away.since <= asked).is_some()
    }
}

/// A pause may be longer than clocks can tell.
fn later(now: Instant, pause: Duration) -> Instant {
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    now + pause.min(year)
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_one_asks_and_the_others_do_not() {
        let outage = Outage::new(Duration::from_secs(1));
        assert!(outage.why().is_none());
        let before = Instant::now();
        assert!(!outage.end(before));
        sleep(Duration::from_secs(1)).await;
        let why = Arc::new(Error::Closed);
        assert!(outage.begin(&why));
        assert!(!outage.begin(&why));
        assert!(outage.why().is_some());
        sleep(Duration::from_secs(1)).await;
        assert!(outage.why().is_none());
        assert!(outage.why().is_some());
        assert!(!outage.end(before));
        assert!(outage.why().is_some());
        assert!(outage.end(Instant::now()));
        assert!(outage.why().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_pause_everybody_asks() {
        let outage = Outage::new(Duration::ZERO);
        outage.begin(&Arc::new(Error::Closed));
        assert!(outage.why().is_none());
        assert!(outage.why().is_none());
        let outage = Outage::new(Duration::MAX);
        outage.begin(&Arc::new(Error::Closed));
        assert!(outage.why().is_some());
    }
}
