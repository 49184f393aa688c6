//! What both layers that limit requests have in common: whom they ask, for how long, and what becomes of the answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use lockyard::Error;
use tracing::{debug, info, warn};

use crate::counts::Counters;
use crate::outage::{Outage, Question, WhenAway};
use crate::refusal::Refusal;

/// Finds the limit of a request; `None` for one that is not limited.
type Choose<H> = Arc<dyn Fn(&Parts) -> Option<H> + Send + Sync>;

/// Makes the answer to a request that is refused.
type Respond = Arc<dyn Fn(&Refusal) -> Response<Bytes> + Send + Sync>;

/// How a layer limits.
pub(crate) struct Gate<H> {
    choose: Choose<H>,
    pub(crate) wait: Duration,
    pub(crate) when_away: WhenAway,
    pub(crate) outage: Arc<Outage>,
    pub(crate) respond: Respond,
    pub(crate) counters: Arc<Counters>,
}

impl<H> Gate<H> {
    pub(crate) fn new<K: Into<Option<H>>>(
        choose: impl Fn(&Parts) -> K + Send + Sync + 'static,
        wait: Duration,
    ) -> Self {
        Self {
            choose: Arc::new(move |parts| choose(parts).into()),
            wait,
            when_away: WhenAway::default(),
            outage: Arc::new(Outage::new(Duration::from_secs(1))),
            respond: Arc::new(Refusal::response),
            counters: Arc::default(),
        }
    }

    /// The limit of a request.
    pub(crate) fn limit_of<B>(&self, request: Request<B>) -> (Option<H>, Request<B>) {
        let (parts, body) = request.into_parts();
        let limit = (self.choose)(&parts);
        (limit, Request::from_parts(parts, body))
    }

    /// Has a request ask, or tells what becomes of it without.
    pub(crate) fn ask(&self) -> Result<Question, Result<(), Refusal>> {
        self.outage.ask().map_err(|why| self.unasked(why))
    }

    /// What becomes of a request that was answered like this; `None` stands for one that goes on unlimited.
    pub(crate) fn judge<P>(
        &self,
        name: &str,
        question: Question,
        answer: Result<Result<P, Refusal>, Error>,
    ) -> Result<Option<P>, Refusal> {
        let error = match answer {
            Ok(answer) => {
                if question.answered() {
                    info!(name, "the limit can be asked again");
                }
                return match answer {
                    Ok(pass) => {
                        self.counters.admitted.count();
                        Ok(Some(pass))
                    }
                    Err(refusal) => Err(self.over(refusal)),
                };
            }
            Err(error) => Arc::new(error),
        };
        match *error {
            Error::Unreachable { .. }
            | Error::OutcomeUnknown { .. }
            | Error::Refused { .. }
            | Error::LeaseLost { .. }
            | Error::Closed => {
                if question.failed(&error) {
                    warn!(name, error = %Chain(&error), when_away = ?self.when_away, "the limit cannot be asked");
                }
                self.unasked(error).map(|()| None)
            }
            // No permits in all: an operator lets nobody in.
            Error::InvalidPermits { .. } => Err(self.over(Refusal::Busy {
                name: name.to_owned(),
            })),
            Error::InvalidName { .. } => {
                self.counters.failed.count();
                debug!(error = %Chain(&error), "refused");
                Err(Refusal::InvalidKey { source: error })
            }
            _ => {
                self.counters.failed.count();
                warn!(name, error = %Chain(&error), "the limit is set up wrongly");
                Err(Refusal::Misconfigured { source: error })
            }
        }
    }

    /// Notes that a request was refused because of the limit.
    fn over(&self, refusal: Refusal) -> Refusal {
        self.counters.refused.count();
        debug!(?refusal, "refused");
        refusal
    }

    fn unasked(&self, source: Arc<Error>) -> Result<(), Refusal> {
        match self.when_away {
            WhenAway::Open => {
                self.counters.opened.count();
                Ok(())
            }
            WhenAway::Closed => {
                self.counters.closed.count();
                let retry_after = self.outage.pause;
                Err(Refusal::Unavailable {
                    retry_after,
                    source,
                })
            }
        }
    }

    /// The answer to a request that is refused.
    pub(crate) fn refuse(&self, refusal: Refusal) -> Response<Bytes> {
        let mut response = (self.respond)(&refusal);
        response.extensions_mut().insert(refusal);
        response
    }
}

impl<H> Clone for Gate<H> {
    fn clone(&self) -> Self {
        Self {
            choose: self.choose.clone(),
            wait: self.wait,
            when_away: self.when_away,
            outage: self.outage.clone(),
            respond: self.respond.clone(),
            counters: self.counters.clone(),
        }
    }
}

impl<H> fmt::Debug for Gate<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("wait", &self.wait)
            .field("when_away", &self.when_away)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// An error with its sources, for the log.
struct Chain<'a>(&'a Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = std::error::Error::source(self.0);
        while let Some(error) = next {
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}
