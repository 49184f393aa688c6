use std::time::Instant;

use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use lockyard::{Client, ClientOptions, Lease, Rate};
use lockyard_testkit::{Proxy, Server, eventually_async};
use lockyard_tower::{ConcurrencyLimitLayer, Counts, RateLimitLayer, Refusal, WhenAway};
use tokio::time::Duration;
use tower::layer::Layer;
use tower::{Service, service_fn};

use crate::support::{SOON, get, hello, ms, send, text, until_available, until_waiting};

/// A client that gives up soon.
async fn client(url: &str) -> Client {
    let options = ClientOptions::from_url(url).unwrap();
    let options = options.operation_timeout(ms(1000)).waiter_timeout(ms(1500));
    Client::with_options(options).await.unwrap()
}

/// What a service answers, after how long.
async fn ask<S>(service: &S) -> (StatusCode, Duration)
where
    S: Service<http::Request<()>, Error = std::convert::Infallible> + Clone,
    S::Response: Status,
{
    let start = Instant::now();
    let response = send(service, get("/")).await.unwrap();
    (response.code(), start.elapsed())
}

trait Status {
    fn code(&self) -> StatusCode;
}

impl<B> Status for Response<B> {
    fn code(&self) -> StatusCode {
        self.status()
    }
}

fn away(counts: Counts) -> (u64, u64) {
    (counts.opened, counts.closed)
}

// Red when the policies are exchanged, when they are not counted, and when each request waits for the server again.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_server_a_limit_is_open_or_closed_as_it_was_told_and_holds_nobody_up() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let semaphore = client.semaphore("x", 100);
    let limiter = client.rate_limiter("x", Rate::per_second(1000));
    let (long, wait) = (Duration::from_secs(3600), ms(1000));
    let permits = ConcurrencyLimitLayer::new(semaphore).wait(wait).pause(long);
    let rates = RateLimitLayer::new(limiter).pause(long);
    // Each has an outage of its own, and so finds out by itself.
    let open = permits.clone().when_away(WhenAway::Open).pause(long);
    let open_rate = rates.clone().when_away(WhenAway::Open).pause(long);
    let services = (
        permits.layer(service_fn(hello)),
        rates.layer(service_fn(hello)),
        open.layer(service_fn(hello)),
        open_rate.layer(service_fn(hello)),
    );
    assert_eq!(ask(&services.0).await.0, StatusCode::OK);
    assert_eq!(ask(&services.1).await.0, StatusCode::OK);
    server.kill();
    assert_eq!(ask(&services.0).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(&services.1).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(&services.2).await.0, StatusCode::OK);
    assert_eq!(ask(&services.3).await.0, StatusCode::OK);
    // All but the first are answered without asking.
    for _ in 0..50 {
        let (status, took) = ask(&services.0).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(took < ms(900), "{took:?}");
        let (status, took) = ask(&services.3).await;
        assert_eq!(status, StatusCode::OK);
        assert!(took < ms(900), "{took:?}");
    }
    // Counters are those of the layer that both were made from.
    assert_eq!(away(permits.counts()), (1, 51));
    assert_eq!(away(open_rate.counts()), (51, 1));
    let response = send(&services.0, get("/")).await.unwrap();
    assert_eq!(response.headers()[RETRY_AFTER], "3600");
    let refusal = response.extensions().get::<Refusal>().unwrap();
    assert!(
        matches!(refusal, Refusal::Unavailable { source, .. }
        if matches!(**source, lockyard::Error::Unreachable { .. })),
        "{refusal:?}"
    );
    // Strangers do not learn where the server is.
    assert!(!text(response).await.contains("127.0.0.1"));
}

// Red when nobody asks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_back_is_asked_again_after_the_pause() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let semaphore = client.semaphore("x", 1);
    let layer = ConcurrencyLimitLayer::new(semaphore.clone())
        .wait(ms(300))
        .pause(ms(50))
        .when_away(WhenAway::Open);
    let service = layer.layer(service_fn(hello));
    server.kill();
    assert_eq!(ask(&service).await.0, StatusCode::OK);
    assert_eq!(away(layer.counts()), (1, 0));
    server.restart().unwrap();
    eventually_async(SOON, async || {
        ask(&service).await;
        layer.counts().admitted > 0
    })
    .await;
    let held = semaphore.acquire().await.unwrap();
    assert_eq!(ask(&service).await.0, StatusCode::SERVICE_UNAVAILABLE);
    held.release().await.unwrap();
}

// Red when an answer to an older question ends the outage.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_waited_before_the_server_went_away_does_not_bring_it_back() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let semaphore = client.semaphore("x", 1);
    let layer = ConcurrencyLimitLayer::new(semaphore.clone())
        .wait(ms(4000))
        .pause(Duration::from_secs(3600))
        .when_away(WhenAway::Open);
    let patient = layer.layer(service_fn(hello));
    let quick = layer.clone().wait(ms(1000)).layer(service_fn(hello));
    let _held = semaphore.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { ask(&patient).await });
    until_waiting(&semaphore, 1).await;
    server.kill();
    assert_eq!(ask(&quick).await.0, StatusCode::OK);
    assert_eq!(away(layer.counts()), (1, 0));
    assert_eq!(waiting.await.unwrap().0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(layer.counts().refused, 1);
    let (status, took) = ask(&quick).await;
    assert_eq!(status, StatusCode::OK);
    assert!(took < ms(900), "{took:?}");
}

// Red when only a silent server is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_away_and_one_with_other_data_is_not() {
    let server = Server::builder()
        .config("maxmemory", "4mb")
        .start()
        .unwrap();
    let client = client(&server.url()).await;
    server
        .command(&["SET", "lockyard:semaphore.queue:{taken}", "mine"])
        .unwrap();
    server
        .command(&["SET", "lockyard:semaphore.permits:{taken}", "mine"])
        .unwrap();
    server
        .command(&["SET", "lockyard:semaphore:{taken}", "mine"])
        .unwrap();
    server
        .command(&["SET", "lockyard:semaphore.limit:{taken}", "mine"])
        .unwrap();
    let taken = ConcurrencyLimitLayer::new(client.semaphore("taken", 1));
    let layer = taken.when_away(WhenAway::Open).wait(ms(300));
    let (status, _) = ask(&layer.layer(service_fn(hello))).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(layer.counts().failed, 1);

    let layer = ConcurrencyLimitLayer::new(client.semaphore("x", 1)).wait(ms(300));
    let service = layer.layer(service_fn(hello));
    server.fill().unwrap();
    let response = send(&service, get("/")).await.unwrap();
    let refusal = response.extensions().get::<Refusal>().unwrap();
    assert!(
        matches!(refusal, Refusal::Unavailable { source, .. }
        if matches!(**source, lockyard::Error::Refused { .. })),
        "{refusal:?}"
    );
    assert_eq!(layer.counts().closed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_shut_down_counts_as_away() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let layer = RateLimitLayer::new(client.rate_limiter("x", Rate::per_second(1)));
    let service = layer.layer(service_fn(hello));
    client.shutdown().await.unwrap();
    assert_eq!(ask(&service).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(away(layer.counts()), (0, 1));
}

// Red when a lost permit is not counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_is_lost_meanwhile_is_counted_and_its_request_goes_on() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = client(&proxy.url()).await;
    let lease = Lease::Renewed(ms(400));
    let semaphore = client.semaphore("x", 1).with_lease(lease);
    let layer = ConcurrencyLimitLayer::new(semaphore);
    let (frames, body) = crate::support::stream();
    let body = std::sync::Arc::new(std::sync::Mutex::new(Some(body)));
    let service = layer.layer(service_fn(move |_| {
        let body = body.lock().unwrap().take().expect("one request");
        std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(body)))
    }));
    let response = send(&service, get("/")).await.unwrap();
    proxy.refuse();
    proxy.cut();
    // Somebody else gets the permit after a lease.
    let other = Client::connect(&server.url())
        .await
        .unwrap()
        .semaphore("x", 1);
    let permit = other.acquire().await.unwrap();
    frames.send(Ok("all".into())).unwrap();
    drop(frames);
    assert_eq!(text(response).await, "all");
    assert_eq!(layer.counts().lost, 1);
    permit.release().await.unwrap();
    until_available(&other, 1).await;
}
