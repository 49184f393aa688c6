use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use lockyard::Semaphore;
use lockyard_testkit::eventually_async;
use tokio::sync::mpsc;
use tower::{Service, ServiceExt};

/// A generous upper bound for what takes milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) type Data = http_body_util::Full<Bytes>;

pub(crate) fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

/// A service that answers at once.
pub(crate) async fn hello(_: Request<()>) -> Result<Response<Data>, Infallible> {
    Ok(Response::new(Data::from("hello")))
}

/// A service that never answers.
pub(crate) async fn forever(_: Request<()>) -> Result<Response<Data>, Infallible> {
    std::future::pending().await
}

/// A body whose frames come from elsewhere; it ends with its sender.
pub(crate) struct Stream(pub(crate) mpsc::UnboundedReceiver<Result<Bytes, &'static str>>);

pub(crate) type Frames = mpsc::UnboundedSender<Result<Bytes, &'static str>>;

pub(crate) fn stream() -> (Frames, Stream) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Stream(receiver))
}

impl Body for Stream {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let data = self.0.poll_recv(context);
        data.map(|data| data.map(|data| data.map(Frame::data)))
    }
}

/// Sends one request to a clone of a service.
pub(crate) fn send<S, R>(
    service: &S,
    request: R,
) -> impl Future<Output = Result<S::Response, S::Error>> + use<S, R>
where
    S: Service<R> + Clone,
{
    service.clone().oneshot(request)
}

/// Waits until so many permits are free and nobody waits.
pub(crate) async fn until_available(semaphore: &Semaphore, permits: u32) {
    eventually_async(SOON, async || {
        let info = semaphore.inspect().await.unwrap();
        info.available() == permits && info.waiting == 0
    })
    .await;
}

/// Waits until so many requests wait.
pub(crate) async fn until_waiting(semaphore: &Semaphore, waiting: u64) {
    eventually_async(SOON, async || {
        semaphore.inspect().await.unwrap().waiting == waiting
    })
    .await;
}

/// Reads a body to its end, as text.
pub(crate) async fn text<B: Body<Error: std::fmt::Debug>>(response: Response<B>) -> String {
    use http_body_util::BodyExt;
    let data = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(data.to_vec()).unwrap()
}
