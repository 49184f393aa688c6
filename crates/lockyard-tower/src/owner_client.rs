//! For callers: the owner of the scope goes out in a header.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderValue, Request};
use lockyard::Owner;
use tower_layer::Layer;
use tower_service::Service;

use crate::owner::{OWNER, Trust};

/// For clients: sends the [`Owner`] of the scope in which a request is sent along with it.
///
/// The called service, with an [`OwnerLayer`](crate::OwnerLayer), then enters what the caller holds.
/// Outside any scope nothing is sent.
///
/// **Whoever is told an owner can enter what it holds**, so a request whose receiver `tells` does not allow gets no
/// header.
/// A client that talks to services of your own alone may use `|_| true`.
/// The header is this layer's: what a request has under its name is taken off, so that nothing passes through a service
/// by accident.
/// Its value is marked as sensitive, so it is neither printed nor indexed by HTTP/2.
///
/// The owner is looked up when the service is called: tower's `Buffer`, which calls from another task, belongs inside.
///
/// # Examples
///
/// ```
/// use http::{Request, Response};
/// use lockyard::Client;
/// use lockyard_tower::OwnerClientLayer;
/// use tower::{Service, ServiceExt, layer::Layer};
///
/// # async fn example<S>(client: Client, http: S) -> Result<(), Box<dyn std::error::Error>>
/// # where S: Service<Request<String>, Response = Response<String>>, S::Error: std::error::Error + 'static {
/// // `http` is any client of HTTP that is a tower service, such as that of hyper-util.
/// let http = OwnerClientLayer::new(|request| {
///     request.uri.host().is_some_and(|host| host.ends_with(".internal"))
/// })
/// .layer(http);
///
/// client
///     .owner()
///     .scope(async {
///         let guard = client.lock("order:42").acquire().await?;
///         http.oneshot(Request::post("http://stock.internal/reserve").body(String::new())?).await?;
///         guard.release().await?;
///         Ok(())
///     })
///     .await
/// # }
/// ```
#[derive(Clone)]
pub struct OwnerClientLayer {
    tells: Trust,
    header: HeaderName,
}

impl OwnerClientLayer {
    /// Sends owners along with requests whose receiver may know them.
    #[must_use]
    pub fn new(tells: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self {
            tells: Arc::new(tells),
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

impl<S> Layer<S> for OwnerClientLayer {
    type Service = OwnerClient<S>;

    fn layer(&self, inner: S) -> Self::Service {
        OwnerClient {
            inner,
            layer: self.clone(),
        }
    }
}

impl fmt::Debug for OwnerClientLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerClientLayer")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// A client that sends the owner of the scope along; see [`OwnerClientLayer`].
#[derive(Clone, Debug)]
pub struct OwnerClient<S> {
    inner: S,
    layer: OwnerClientLayer,
}

impl<S, A> Service<Request<A>> for OwnerClient<S>
where
    S: Service<Request<A>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(&self.layer.header);
        let told = Owner::current().filter(|_| (self.layer.tells)(&parts));
        if let Some(owner) = told {
            let mut value = HeaderValue::try_from(owner.to_string())
                .expect("an owner is hexadecimal digits, dashes and a colon");
            value.set_sensitive(true);
            parts.headers.insert(self.layer.header.clone(), value);
        }
        self.inner.call(Request::from_parts(parts, body))
    }
}
