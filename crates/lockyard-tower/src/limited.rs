//! A call that goes on only when its limit allows it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::ResponseBody;
use crate::gate::Gate;
use crate::outage::Question;

/// What a limit gives a request on its way, and what the response gets from that.
pub trait Pass: Sized {
    /// Puts it onto the response.
    fn onto<B: Body>(pass: Option<Self>, response: Response<B>) -> Response<ResponseBody<B>>;
}

/// Asks a limit: what it gives, nothing for a request that goes on unlimited, or the answer to one that does not.
pub(crate) type Ask<P> = Pin<Box<dyn Future<Output = Result<Option<P>, Response<Bytes>>> + Send>>;

/// Calls a service that is ready, if the limit of the request allows it.
///
/// While the limit is asked, the future keeps the service that is ready, and a clone takes its place.
pub(crate) fn call<S, H, P, B>(
    inner: &mut S,
    gate: &Gate<H>,
    request: Request<B>,
    ask: impl FnOnce(H, Question) -> Ask<P>,
) -> LimitedFuture<S, Request<B>, P>
where
    S: Service<Request<B>> + Clone,
{
    let (limit, request) = gate.limit_of(request);
    let asked = limit.map(|limit| Ok((limit, gate.ask()?)));
    let state = match asked {
        None | Some(Err(Ok(()))) => State::Calling {
            future: inner.call(request),
            pass: None,
        },
        Some(Err(Err(refusal))) => State::Refused {
            response: Some(gate.refuse(refusal)),
        },
        Some(Ok((limit, question))) => {
            let clone = inner.clone();
            let service = std::mem::replace(inner, clone);
            State::Asking {
                ask: ask(limit, question),
                call: Some((service, request)),
            }
        }
    };
    LimitedFuture { state }
}

pin_project! {
    /// The future of a limited call.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for a permit, it leaves the queue; dropped later, its permit is released in the
    /// background.
    /// What it has taken of a rate stays taken.
    pub struct LimitedFuture<S, R, P>
    where
        S: Service<R>,
    {
        #[pin]
        state: State<S, R, P>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, R, P>
    where
        S: Service<R>,
    {
        Asking { ask: Ask<P>, call: Option<(S, R)> },
        // In this order, so that a permit is released when the service is done.
        Calling { #[pin] future: S::Future, pass: Option<P> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<S, R, P, B> Future for LimitedFuture<S, R, P>
where
    S: Service<R, Response = Response<B>>,
    P: Pass,
    B: Body,
{
    type Output = Result<Response<ResponseBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Asking { ask, call } => match ready!(ask.as_mut().poll(context)) {
                    Ok(pass) => {
                        let (mut service, request) = call.take().expect("it is asked only once");
                        State::Calling {
                            future: service.call(request),
                            pass,
                        }
                    }
                    Err(response) => State::Refused {
                        response: Some(response),
                    },
                },
                StateProjection::Calling { future, pass } => {
                    let response = ready!(future.poll(context));
                    return Poll::Ready(response.map(|response| P::onto(pass.take(), response)));
                }
                StateProjection::Refused { response } => {
                    let response = response.take().expect("it is not polled after its end");
                    return Poll::Ready(Ok(response.map(ResponseBody::text)));
                }
            };
            state.set(next);
        }
    }
}

impl<S: Service<R>, R, P> fmt::Debug for LimitedFuture<S, R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedFuture").finish_non_exhaustive()
    }
}
