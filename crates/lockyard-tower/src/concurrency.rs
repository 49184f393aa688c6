//! A limit to how many requests run at once.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use lockyard::{Semaphore, SemaphorePermit};
use tower_layer::Layer;
use tower_service::Service;

use crate::body::ResponseBody;
use crate::counts::{Counters, Counts};
use crate::gate::Gate;
use crate::limited::{Ask, LimitedFuture, Pass, call};
use crate::outage::{Outage, Question, WhenAway};
use crate::refusal::Refusal;

/// Limits how many requests run at once over all processes, by a [`Semaphore`].
///
/// A request gets a permit of its semaphore before the service is called, and keeps it until the body of the response
/// has ended, failed or been dropped: streams count as long as they flow.
/// Whoever waits stands in the semaphore's queue, first come, first served; one that hangs up leaves it.
/// A connection that is upgraded, as for a WebSocket, counts until the answer to its request only.
///
/// When a process dies its permits come back after one lease.
/// A request whose permit is lost, as its process could not reach the server for a whole lease, goes on, and is counted
/// in [`Counts::lost`].
///
/// # The future, and readiness
///
/// Which semaphore a request needs is known only when the request is there, so `poll_ready` asks the service alone, and
/// the future of the call waits for the permit.
/// It keeps the very service that was ready meanwhile, and a clone takes its place.
/// To bound how many requests wait, put tower's own `ConcurrencyLimitLayer` or `LoadShedLayer` outside.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// use axum::{Router, routing::get};
/// use http::request::Parts;
/// use lockyard::Client;
/// use lockyard_tower::{ConcurrencyLimitLayer, WhenAway};
///
/// # async fn example(report: Router) -> Result<Router, lockyard::Error> {
/// let client = Client::connect("redis://127.0.0.1:6379").await?;
///
/// // Ten reports at once in the whole fleet; an eleventh waits for a second, then gets 503.
/// let reports = client.semaphore("reports", 10);
/// let report = report.layer(ConcurrencyLimitLayer::new(reports));
///
/// // Three requests at once for each tenant, and none of them waits.
/// let by_tenant = ConcurrencyLimitLayer::by(move |request: &Parts| {
///     let tenant = request.headers.get("x-tenant").and_then(|tenant| tenant.to_str().ok());
///     client.semaphore(format!("tenant:{}", tenant.unwrap_or("none")), 3)
/// })
/// .wait(Duration::ZERO)
/// .when_away(WhenAway::Open);
/// Ok(report.route("/", get(async || "hello")).layer(by_tenant))
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ConcurrencyLimitLayer {
    gate: Gate<Semaphore>,
}

impl ConcurrencyLimitLayer {
    /// Limits all requests by one semaphore.
    #[must_use]
    pub fn new(semaphore: Semaphore) -> Self {
        Self::by(move |_| semaphore.clone())
    }

    /// Limits each request by the semaphore that is made of it, as of its tenant or route; one for which there is `None`
    /// is not limited.
    ///
    /// What stands in the name decides what is counted together.
    /// A name that is none, as one with a brace in it, is answered with 400: see
    /// [`Client::semaphore`](lockyard::Client::semaphore).
    /// Use what the sender can neither choose freely nor leave out, such as an authenticated tenant: whoever chooses the
    /// name chooses the limit.
    #[must_use]
    pub fn by<K: Into<Option<Semaphore>>>(
        semaphore: impl Fn(&Parts) -> K + Send + Sync + 'static,
    ) -> Self {
        Self {
            gate: Gate::new(semaphore, Duration::from_secs(1)),
        }
    }

    /// Sets how long a request waits for a permit.
    ///
    /// More lets a short rush through; less tells callers sooner that there is too much to do.
    /// Zero is one attempt, for which the server has one operation timeout.
    /// [`Duration::MAX`] is no limit, for a server that is away as well.
    /// Defaults to 1 s.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.gate.wait = wait;
        self
    }

    /// Sets what becomes of requests while the semaphore's server cannot be asked.
    ///
    /// Those that stand in the queue when it goes away wait in vain, and are refused under both policies.
    /// Defaults to [`WhenAway::Closed`].
    #[must_use]
    pub fn when_away(mut self, when_away: WhenAway) -> Self {
        self.gate.when_away = when_away;
        self
    }

    /// Sets for how long no request asks after the server could not be asked; then one does.
    ///
    /// More spares requests the wait for a server that is away; less notices sooner that it is back.
    /// Defaults to 1 s.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.gate.outage = Arc::new(Outage::new(pause));
        self
    }

    /// Sets how a request that is refused is answered.
    ///
    /// The refusal stands in the extensions of the answer in any case.
    /// Defaults to [`Refusal::response`].
    #[must_use]
    pub fn respond(
        mut self,
        respond: impl Fn(&Refusal) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.gate.respond = Arc::new(respond);
        self
    }

    /// What the layer has done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.gate.counters.read()
    }
}

impl<S> Layer<S> for ConcurrencyLimitLayer {
    type Service = ConcurrencyLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ConcurrencyLimit {
            inner,
            gate: self.gate.clone(),
        }
    }
}

/// A service whose requests at once are limited; see [`ConcurrencyLimitLayer`].
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit<S> {
    inner: S,
    gate: Gate<Semaphore>,
}

impl<S, A, B> Service<Request<A>> for ConcurrencyLimit<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
    B: Body,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = LimitedFuture<S, Request<A>, Held>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let gate = &self.gate;
        call(&mut self.inner, gate, request, |semaphore, question| {
            ask(gate.clone(), semaphore, question)
        })
    }
}

fn ask(gate: Gate<Semaphore>, semaphore: Semaphore, question: Question) -> Ask<Held> {
    Box::pin(async move {
        let name = semaphore.name();
        let permit = match gate.wait {
            Duration::MAX => semaphore.acquire().await.map(Some),
            wait => semaphore.try_acquire_for(wait).await,
        };
        let answer = permit.map(|permit| match permit {
            Some(permit) => Ok(Held {
                permit,
                counters: gate.counters.clone(),
            }),
            None => Err(Refusal::Busy {
                name: name.to_owned(),
            }),
        });
        gate.judge(name, question, answer)
            .map_err(|refusal| gate.refuse(refusal))
    })
}

/// The permit of a request.
#[derive(Debug)]
pub struct Held {
    permit: SemaphorePermit,
    counters: Arc<Counters>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.permit.is_lost() {
            self.counters.lost.count();
        }
    }
}

impl Pass for Held {
    fn onto<B: Body>(held: Option<Self>, response: Response<B>) -> Response<ResponseBody<B>> {
        response.map(|body| ResponseBody::new(body, held, None))
    }
}
