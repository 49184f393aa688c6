//! A limit to how many requests may start in what time.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use lockyard::{Decision, RateLimiter};
use tower_layer::Layer;
use tower_service::Service;

use crate::body::ResponseBody;
use crate::counts::Counts;
use crate::gate::Gate;
use crate::headers::{Policy, RateHeaders};
use crate::limited::{Ask, LimitedFuture, Pass, call};
use crate::outage::{Outage, Question, WhenAway};
use crate::refusal::Refusal;

/// Limits how many requests may start in what time over all processes, by a [`RateLimiter`].
///
/// A request takes one permit of its limiter; one that comes too early is answered with 429 and `Retry-After`, or waits
/// first, if a [wait](Self::wait) is set.
///
/// # Headers
///
/// Each answer of a limited request, also one that is allowed, tells what is left, in the fields `RateLimit-Policy` and
/// `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10:
///
/// ```text
/// RateLimit-Policy: "default";q=20;w=2
/// RateLimit: "default";r=0;t=1
/// Retry-After: 1
/// ```
///
/// | | | |
/// |---|---|---|
/// | `q` | the burst | requests |
/// | `w` | after what time all of a burst can be had again | s |
/// | `r` | how many requests are allowed at once | requests |
/// | `t` | after what time there is one more | s |
///
/// Times are rounded up to whole seconds, so whoever heeds them never comes too early.
/// They are appended, so several limits of one service each have theirs; give each its [policy](Self::policy).
/// The headers tell a name for the policy and no key, and there are none while the server cannot be asked.
///
/// # Examples
///
/// ```no_run
/// use axum::{Router, routing::get};
/// use http::request::Parts;
/// use lockyard::{Client, Rate};
/// use lockyard_tower::{RateLimitLayer, WhenAway};
///
/// # async fn example() -> Result<Router, lockyard::Error> {
/// let client = Client::connect("redis://127.0.0.1:6379").await?;
/// let rate = Rate::per_second(10).burst(20);
///
/// // One limit for all instances; while Redis is away, requests pass.
/// let api = RateLimitLayer::new(client.rate_limiter("api", rate)).when_away(WhenAway::Open);
///
/// // And one for each tenant, which stands in the path.
/// let tenants = RateLimitLayer::by(move |request: &Parts| {
///     let tenant = request.uri.path().split('/').nth(1)?;
///     Some(client.rate_limiter(format!("tenant:{tenant}"), Rate::per_minute(60)))
/// })
/// .policy("tenant");
/// let hello = get(async || "hello");
/// Ok(Router::new().route("/{tenant}", hello).layer(tenants).layer(api))
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    gate: Gate<RateLimiter>,
    policy: Policy,
}

impl RateLimitLayer {
    /// Limits all requests by one limiter.
    #[must_use]
    pub fn new(limiter: RateLimiter) -> Self {
        Self::by(move |_| limiter.clone())
    }

    /// Limits each request by the limiter that is made of it, as of its tenant or route; one for which there is `None` is
    /// not limited.
    ///
    /// What stands in the name decides what is counted together.
    /// A name that is none, as one with a brace in it, is answered with 400: see
    /// [`Client::rate_limiter`](lockyard::Client::rate_limiter).
    /// Use what the sender can neither choose freely nor leave out, such as an authenticated tenant: whoever chooses the
    /// name chooses the limit.
    #[must_use]
    pub fn by<K: Into<Option<RateLimiter>>>(
        limiter: impl Fn(&Parts) -> K + Send + Sync + 'static,
    ) -> Self {
        Self {
            gate: Gate::new(limiter, Duration::ZERO),
            policy: Policy::default(),
        }
    }

    /// Sets how long a request may wait until it is within the rate.
    ///
    /// More smooths a rush; less tells callers at once when to come again.
    /// Only those wait whose turn comes within that time; all others are answered with 429 at once.
    /// What a request takes stays taken if its sender hangs up meanwhile, so keep it short.
    /// [`Duration::MAX`] is no limit, for a server that is away as well.
    /// Defaults to zero: nobody waits.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.gate.wait = wait;
        self
    }

    /// Sets the name of the policy in the headers.
    ///
    /// What is no printable ASCII becomes `_`.
    /// Defaults to `default`.
    #[must_use]
    pub fn policy(mut self, name: impl AsRef<str>) -> Self {
        self.policy = Policy::new(name.as_ref());
        self
    }

    /// Sets what becomes of requests while the limiter's server cannot be asked.
    ///
    /// Defaults to [`WhenAway::Closed`].
    #[must_use]
    pub fn when_away(mut self, when_away: WhenAway) -> Self {
        self.gate.when_away = when_away;
        self
    }

    /// Sets for how long no request asks after the server could not be asked; then one does.
    ///
    /// More spares requests the wait for a server that is away, which is one operation timeout; less notices sooner that
    /// it is back.
    /// Defaults to 1 s.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.gate.outage = Arc::new(Outage::new(pause));
        self
    }

    /// Sets how a request that is refused is answered.
    ///
    /// The headers of the rate are appended, and the refusal stands in the extensions of the answer in any case.
    /// Defaults to [`Refusal::response`].
    #[must_use]
    pub fn respond(
        mut self,
        respond: impl Fn(&Refusal) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.gate.respond = Arc::new(respond);
        self
    }

    /// What the layer has done so far; [`Counts::lost`] stays zero.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.gate.counters.read()
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit {
            inner,
            gate: self.gate.clone(),
            policy: self.policy.clone(),
        }
    }
}

/// A service whose rate of requests is limited; see [`RateLimitLayer`].
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    gate: Gate<RateLimiter>,
    policy: Policy,
}

impl<S, A, B> Service<Request<A>> for RateLimit<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
    B: Body,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = LimitedFuture<S, Request<A>, RateHeaders>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (gate, policy) = (&self.gate, &self.policy);
        call(&mut self.inner, gate, request, |limiter, question| {
            ask(gate.clone(), policy.clone(), limiter, question)
        })
    }
}

fn ask(
    gate: Gate<RateLimiter>,
    policy: Policy,
    limiter: RateLimiter,
    question: Question,
) -> Ask<RateHeaders> {
    Box::pin(async move {
        let (name, rate) = (limiter.name(), limiter.rate());
        let decision = match gate.wait {
            Duration::MAX => limiter.acquire(1).await.map(Decision::Allowed),
            wait => limiter.try_acquire_for(1, wait).await,
        };
        let answer = decision.map(|decision| match decision {
            Decision::Allowed(quota) => Ok(RateHeaders::new(&policy, rate, quota)),
            Decision::Denied { retry_after, quota } => Err(Refusal::RateLimited {
                name: name.to_owned(),
                retry_after,
                quota,
            }),
        });
        gate.judge(name, question, answer).map_err(|refusal| {
            let headers = match &refusal {
                Refusal::RateLimited { quota, .. } => Some(RateHeaders::new(&policy, rate, *quota)),
                _ => None,
            };
            let mut response = gate.refuse(refusal);
            if let Some(headers) = headers {
                headers.append_to(response.headers_mut());
            }
            response
        })
    })
}

impl Pass for RateHeaders {
    fn onto<B: Body>(pass: Option<Self>, mut response: Response<B>) -> Response<ResponseBody<B>> {
        if let Some(headers) = pass {
            headers.append_to(response.headers_mut());
        }
        response.map(|body| ResponseBody::new(body, None, None))
    }
}
