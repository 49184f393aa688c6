use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};

use axum::Router;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use lockyard::{Client, Semaphore};
use lockyard_memory::MemoryServer;
use lockyard_testkit::{Server, eventually_async};
use lockyard_tower::ConcurrencyLimitLayer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, Sleep, sleep, timeout};
use tower::layer::Layer;
use tower::service_fn;

use crate::support::{SOON, get, ms, send, until_available};

const LIMIT: u32 = 10;

/// How many requests are in the service or its bodies, and how many were at most.
#[derive(Debug, Default)]
struct Gauge {
    now: AtomicU64,
    most: AtomicU64,
}

/// A request that is inside.
struct Inside(Arc<Gauge>);

impl Inside {
    fn new(gauge: &Arc<Gauge>) -> Self {
        let now = gauge.now.fetch_add(1, SeqCst) + 1;
        gauge.most.fetch_max(now, SeqCst);
        Self(gauge.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

/// A body of three frames with a pause before each; its request is inside until it has ended or been dropped.
struct Slow {
    inside: Option<Inside>,
    left: u32,
    pause: Pin<Box<Sleep>>,
}

impl Body for Slow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            self.inside = None;
            return Poll::Ready(None);
        }
        std::task::ready!(self.pause.as_mut().poll(context));
        self.left -= 1;
        self.pause = Box::pin(sleep(ms(1)));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"part ")))))
    }
}

async fn work(gauge: Arc<Gauge>) -> Result<Response<Slow>, Infallible> {
    let inside = Inside::new(&gauge);
    sleep(ms(2)).await;
    Ok(Response::new(Slow {
        inside: Some(inside),
        left: 3,
        pause: Box::pin(sleep(ms(1))),
    }))
}

/// A thousand requests over several clients, of which every tenth hangs up at some point: how many were answered.
async fn rush(semaphores: &[Semaphore], gauge: &Arc<Gauge>) -> usize {
    let layers: Vec<ConcurrencyLimitLayer> = semaphores
        .iter()
        .map(|semaphore| ConcurrencyLimitLayer::new(semaphore.clone()).wait(Duration::MAX))
        .collect();
    let requests = (0..1000u64).map(|number| {
        let gauge = gauge.clone();
        let call = service_fn(move |_: Request<()>| work(gauge.clone()));
        let service = layers[number as usize % layers.len()].layer(call);
        let answer = async move {
            let response = send(&service, get("/")).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let data = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(data, "part part part ");
        };
        tokio::spawn(async move {
            if number % 10 == 5 {
                // At times that are spread over the whole rush, so in the queue, in the service and in the body.
                timeout(ms(number / 2), answer).await.is_ok()
            } else {
                answer.await;
                true
            }
        })
    });
    let answered = join_all(requests).await;
    let answered = answered.into_iter().filter(|done| *done.as_ref().unwrap());
    answered.count()
}

// Red when the bound is one more, when permits end with the head, and when a hang-up keeps its permit.
#[tokio::test(start_paused = true)]
async fn a_thousand_requests_of_which_a_tenth_hang_up_leak_no_permit() {
    let server = MemoryServer::new();
    let clients = [server.client(), server.client(), server.client()];
    let semaphores = clients.map(|client| client.semaphore("x", LIMIT));
    let gauge = Arc::new(Gauge::default());
    let answered = rush(&semaphores, &gauge).await;
    assert!((900..1000).contains(&answered), "{answered}");
    assert_eq!(gauge.most.load(SeqCst), u64::from(LIMIT));
    assert_eq!(gauge.now.load(SeqCst), 0);
    until_available(&semaphores[0], LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_holds_on_a_real_server() {
    let server = Server::start().unwrap();
    let mut semaphores = Vec::new();
    for _ in 0..3 {
        let client = Client::connect(&server.url()).await.unwrap();
        semaphores.push(client.semaphore("x", LIMIT));
    }
    let gauge = Arc::new(Gauge::default());
    let answered = timeout(Duration::from_secs(120), rush(&semaphores, &gauge)).await;
    assert!((900..=1000).contains(&answered.unwrap()));
    let most = gauge.most.load(SeqCst);
    assert!((2..=u64::from(LIMIT)).contains(&most), "{most}");
    until_available(&semaphores[0], LIMIT).await;
}

// Red when hyper keeps what a client that has gone would get: that is, when a body is not dropped with its connection.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_close_their_connections_leak_no_permit() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let semaphore = client.semaphore("x", 3);
    let gauge = Arc::new(Gauge::default());
    let inside = gauge.clone();
    let handler = async move || {
        let response = work(inside).await.unwrap();
        response.map(axum::body::Body::new)
    };
    let layer = ConcurrencyLimitLayer::new(semaphore.clone()).wait(Duration::MAX);
    let routes = Router::new()
        .route("/", axum::routing::get(handler))
        .route("/never", axum::routing::get(std::future::pending::<()>))
        .layer(layer.clone());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, routes).await });

    let connect = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    };
    // Three fill the service, the rest waits; then the first six hang up.
    let mut gone = Vec::new();
    for _ in 0..6 {
        gone.push(connect("/never").await);
    }
    eventually_async(SOON, async || {
        semaphore.inspect().await.unwrap().waiting == 3
    })
    .await;
    let mut waiting = Vec::new();
    for _ in 0..60 {
        waiting.push(connect("/").await);
    }
    drop(gone);
    for stream in &mut waiting {
        let mut answer = String::new();
        let reading = timeout(SOON, stream.read_to_string(&mut answer));
        reading.await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("part "), "{answer}");
    }
    assert!(gauge.most.load(SeqCst) <= 3);
    until_available(&semaphore, 3).await;
    let counts = layer.counts();
    assert!((63..=66).contains(&counts.admitted), "{counts:?}");
    serving.abort();
}
