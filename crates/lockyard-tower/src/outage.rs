//! What a layer does while the limit's server cannot be asked.
//!
//! Whoever finds the server away has waited for its answer. So that not every request waits like this, the layer asks
//! no more for a pause; then one request asks again, and the others go on as before until it has an answer.
//!
//! Only an answer to what was asked after the latest failure is a sign that the server is back: a request that stood in
//! a queue before it went away has waited in vain, and knows nothing of it.
//! Whoever asks again but never learns anything, as it hangs up or brings an invalid name, leaves it to the next one; so
//! nobody keeps a limit open by such requests.

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
/// There will be no third policy, so a `match` needs no other arm.
///
/// A client is made only while its server is there, so neither helps a service to start without it.
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

    /// Has the caller ask, or tells why it is not to.
    pub(crate) fn ask(self: &Arc<Self>) -> Result<Question, Arc<Error>> {
        let asked = Instant::now();
        let mut away = self.away.lock();
        if let Some(away) = away.as_mut() {
            if asked < away.until {
                return Err(away.why.clone());
            }
            // Others ask only if this one gets no answer for a pause.
            away.until = later(asked, self.pause);
        }
        Ok(Question {
            outage: self.clone(),
            asked,
            again: away.is_some(),
        })
    }
}

/// A request that asks the server.
#[derive(Debug)]
pub(crate) struct Question {
    outage: Arc<Outage>,
    asked: Instant,
    /// Whether others wait for what it learns of a server that was away.
    again: bool,
}

impl Question {
    /// Notes that the server could not be asked; whether it is news.
    pub(crate) fn failed(mut self, why: &Arc<Error>) -> bool {
        self.again = false;
        let since = Instant::now();
        let away = Away {
            since,
            until: later(since, self.outage.pause),
            why: why.clone(),
        };
        self.outage.away.lock().replace(away).is_none()
    }

    /// Notes that the server answered; whether it is news.
    pub(crate) fn answered(mut self) -> bool {
        self.again = false;
        let mut away = self.outage.away.lock();
        away.take_if(|away| away.since <= self.asked).is_some()
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if self.again
            && let Some(away) = self.outage.away.lock().as_mut()
        {
            away.until = self.asked;
        }
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

    const PAUSE: Duration = Duration::from_secs(1);

    fn outage(pause: Duration) -> Arc<Outage> {
        Arc::new(Outage::new(pause))
    }

    fn fail(outage: &Arc<Outage>) -> bool {
        let question = outage.ask().expect("it is asked");
        question.failed(&Arc::new(Error::Closed))
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_one_asks_and_the_others_do_not() {
        let outage = outage(PAUSE);
        assert!(!outage.ask().expect("all is well").answered());
        let (one, two) = (outage.ask(), outage.ask());
        let why = Arc::new(Error::Closed);
        assert!(one.expect("all is well").failed(&why));
        assert!(!two.expect("all is well").failed(&why));
        assert!(outage.ask().is_err());
        sleep(PAUSE).await;
        let question = outage.ask().expect("the pause is over");
        assert!(outage.ask().is_err());
        assert!(question.answered());
        assert!(outage.ask().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_an_older_question_is_no_sign() {
        let outage = outage(PAUSE);
        let old = outage.ask().expect("all is well");
        sleep(PAUSE).await;
        assert!(fail(&outage));
        assert!(!old.answered());
        assert!(outage.ask().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_without_an_outcome_leaves_it_to_the_next() {
        let outage = outage(PAUSE);
        drop(outage.ask());
        assert!(fail(&outage));
        for _ in 0..3 {
            sleep(PAUSE).await;
            drop(outage.ask().expect("the pause is over"));
            assert!(!fail(&outage));
            assert!(outage.ask().is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_may_be_as_short_or_as_long_as_can_be() {
        let never = outage(Duration::ZERO);
        fail(&never);
        let (one, two) = (never.ask(), never.ask());
        assert!(one.is_ok() && two.is_ok());
        let longest = outage(Duration::MAX);
        fail(&longest);
        sleep(PAUSE * 1000).await;
        assert!(longest.ask().is_err());
    }
}
