//! Owners that travel with requests: header in, scope round the call; and scope, header out.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{Entry, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use lockyard::Owner;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use tracing::warn;

use crate::body::ResponseBody;
use crate::refusal::Refusal;

/// The header in which owners travel unless a layer is told another.
pub(crate) const OWNER: HeaderName = HeaderName::from_static("lockyard-owner");

/// Of how many bytes an owner's text has at most: a UUID, a colon, and a number of 64 bits.
const LONGEST: usize = 36 + 1 + 20;

/// Whether an owner may come from, or go to, whom a request names.
pub(crate) type Trust = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// For servers: runs the call of a request in the scope of the [`Owner`] that its header names.
///
/// Then every acquire of the handler enters what the caller holds, instead of waiting for it for ever.
/// The scope is there while the service makes the response and while the body of the response is polled; spawned tasks
/// do not inherit it.
/// A request without the header runs as if there were no layer.
/// What the caller does not hold, the handler acquires in the owner's name; [`Lock::reenter`](lockyard::Lock::reenter)
/// with [`Owner::current`] enters only what it holds.
/// Two calls at once of one owner share what it holds, and so do not exclude each other.
/// On the side of the caller [`OwnerClientLayer`](crate::OwnerClientLayer) sends the header.
///
/// # Who may name an owner
///
/// **Whoever names an owner enters what it holds**, so this is where the service decides whom it trusts.
/// There is no default: `trust` looks at the request, and is to tell callers of your own, as by a client certificate, a
/// secret, or the address that [`axum::extract::ConnectInfo`](https://docs.rs/axum/latest/axum/extract/struct.ConnectInfo.html)
/// puts into the extensions, from all others.
/// A service that only callers of your own can reach may use `|_| true`.
///
/// | the request has | it gets |
/// |---|---|
/// | no such header | its answer, outside any scope |
/// | one that `trust` allows | its answer, in the owner's scope |
/// | one that `trust` does not allow | 403 |
/// | one that is no owner's text, or longer than one can be | 400 |
/// | several | 400 |
///
/// Each refusal is logged as a warning, without what was in the header.
/// The service does not see the header, so one that passes headers on gives no owner away.
///
/// # Examples
///
/// ```no_run
/// use axum::{Router, extract::State, routing::post};
/// use lockyard::Client;
/// use lockyard_tower::OwnerLayer;
///
/// # fn example(client: Client) -> Router {
/// async fn reserve(State(client): State<Client>) -> Result<String, String> {
///     // At once, if the caller holds it.
///     let guard = client.lock("order:42").acquire().await.map_err(|error| error.to_string())?;
///     guard.release().await.map_err(|error| error.to_string())?;
///     Ok("reserved".to_owned())
/// }
///
/// let secret = "only our services know it";
/// let owners = OwnerLayer::new(move |request| {
///     request.headers.get("x-internal").is_some_and(|value| value == secret)
/// });
/// Router::new().route("/reserve", post(reserve)).layer(owners).with_state(client)
/// # }
/// ```
#[derive(Clone)]
pub struct OwnerLayer {
    trust: Trust,
    header: HeaderName,
}

impl OwnerLayer {
    /// Takes owners from requests that are trusted.
    #[must_use]
    pub fn new(trust: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self {
            trust: Arc::new(trust),
            header: OWNER,
        }
    }

    /// Sets the name of the header.
    ///
    /// Defaults to `lockyard-owner`.
    #[must_use]
    pub fn header(mut self, header: HeaderName) -> Self {
        self.header = header;
        self
    }
}

impl<S> Layer<S> for OwnerLayer {
    type Service = OwnerScope<S>;

    fn layer(&self, inner: S) -> Self::Service {
        OwnerScope {
            inner,
            layer: self.clone(),
        }
    }
}

impl fmt::Debug for OwnerLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerLayer")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// A service whose calls run in the scope of their caller's owner; see [`OwnerLayer`].
#[derive(Clone, Debug)]
pub struct OwnerScope<S> {
    inner: S,
    layer: OwnerLayer,
}

impl<S> OwnerScope<S> {
    /// Takes the owner off a request.
    fn owner<A>(&self, request: Request<A>) -> Result<(Option<Owner>, Request<A>), Refusal> {
        let (mut parts, body) = request.into_parts();
        let trusted = !parts.headers.contains_key(&self.layer.header) || (self.layer.trust)(&parts);
        let owner = match parts.headers.entry(&self.layer.header) {
            Entry::Vacant(_) => None,
            Entry::Occupied(_) if !trusted => return Err(Refusal::UntrustedOwner),
            Entry::Occupied(entry) => {
                let (_, mut values) = entry.remove_entry_mult();
                let value = values.next();
                if values.next().is_some() {
                    return Err(Refusal::SeveralOwners);
                }
                value.as_ref().map(read).transpose()?
            }
        };
        Ok((owner, Request::from_parts(parts, body)))
    }
}

fn read(value: &HeaderValue) -> Result<Owner, Refusal> {
    if value.len() > LONGEST {
        return Err(Refusal::OversizedOwner);
    }
    let text = value.to_str().map_err(|_| Refusal::MalformedOwner)?;
    text.parse().map_err(|_| Refusal::MalformedOwner)
}

impl<S, A, B> Service<Request<A>> for OwnerScope<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = ScopedFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let state = match self.owner(request) {
            Ok((owner, request)) => State::Calling {
                future: within(owner.as_ref(), || self.inner.call(request)),
                owner,
            },
            Err(refusal) => {
                warn!(header = %self.layer.header, %refusal, "refused");
                let mut response = refusal.response();
                response.extensions_mut().insert(refusal);
                State::Refused {
                    response: Some(response),
                }
            }
        };
        ScopedFuture { state }
    }
}

/// Does something in the scope of an owner, if there is one.
pub(crate) fn within<T>(owner: Option<&Owner>, work: impl FnOnce() -> T) -> T {
    match owner {
        Some(owner) => owner.sync_scope(work),
        None => work(),
    }
}

pin_project! {
    /// The future of a call in an owner's scope.
    #[derive(Debug)]
    pub struct ScopedFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<F> {
        Calling { #[pin] future: F, owner: Option<Owner> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<F, B, E> Future for ScopedFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<ResponseBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match self.project().state.project() {
            StateProjection::Calling { future, owner } => {
                let response = ready!(within(owner.as_ref(), || future.poll(context)))?;
                response.map(|body| ResponseBody::new(body, None, owner.take()))
            }
            StateProjection::Refused { response } => {
                let response = response.take().expect("it is not polled after its end");
                response.map(ResponseBody::text)
            }
        };
        Poll::Ready(Ok(response))
    }
}
