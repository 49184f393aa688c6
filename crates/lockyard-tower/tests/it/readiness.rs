use http::{Request, Response, StatusCode};
use lockyard::{ClientOptions, Rate, Semaphore};
use lockyard_memory::MemoryServer;
use lockyard_tower::{ConcurrencyLimitLayer, OwnerLayer, RateLimitLayer, WhenAway};
use tokio::time::timeout;
use tower::{Service, ServiceExt, layer::Layer};
use tower_test::mock;

use crate::support::{Data, SOON, get, ms, send, until_available, until_waiting};

type Answer = Response<Data>;

/// The next request that the mock gets, which is to come soon.
async fn next(
    handle: &mut mock::Handle<Request<()>, Answer>,
) -> (Request<()>, mock::SendResponse<Answer>) {
    timeout(SOON, handle.next_request()).await.unwrap().unwrap()
}

fn answer() -> Answer {
    Response::new(Data::from("hello"))
}

// Red when a permit is needed to be ready, and when the service is not asked.
#[tokio::test(start_paused = true)]
async fn a_layer_is_ready_when_its_service_is_whatever_the_limit_says() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let limiter = client.rate_limiter("x", Rate::per_hour(1));
    let _permit = semaphore.acquire().await.unwrap();
    limiter.acquire(1).await.unwrap();

    let concurrency = ConcurrencyLimitLayer::new(semaphore);
    let (mut service, mut handle) = mock::spawn_layer::<Request<()>, Answer, _>(concurrency);
    check(|| service.poll_ready(), &mut handle);
    let rate = RateLimitLayer::new(limiter);
    let (mut service, mut handle) = mock::spawn_layer::<Request<()>, Answer, _>(rate);
    check(|| service.poll_ready(), &mut handle);
    let owner = OwnerLayer::new(|_| true);
    let (mut service, mut handle) = mock::spawn_layer::<Request<()>, Answer, _>(owner);
    check(|| service.poll_ready(), &mut handle);

    fn check<E>(
        mut ready: impl FnMut() -> std::task::Poll<Result<(), E>>,
        handle: &mut mock::Handle<Request<()>, Answer>,
    ) {
        handle.allow(0);
        assert!(ready().is_pending());
        handle.allow(1);
        assert!(matches!(ready(), std::task::Poll::Ready(Ok(()))));
        handle.send_error("gone");
        assert!(matches!(ready(), std::task::Poll::Ready(Err(_))));
    }
}

// Red, by a panic of the mock, when a clone is called instead of the service that was ready.
#[tokio::test(start_paused = true)]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let held = semaphore.acquire().await.unwrap();
    let (mock, mut handle) = mock::pair::<Request<()>, Answer>();
    let mut service = ConcurrencyLimitLayer::new(semaphore.clone()).layer(mock);
    handle.allow(1);
    let call = tokio::spawn(service.ready().await.unwrap().call(get("/")));
    until_waiting(&semaphore, 1).await;
    held.release().await.unwrap();
    let (_, respond) = next(&mut handle).await;
    respond.send_response(answer());
    assert_eq!(call.await.unwrap().unwrap().status(), StatusCode::OK);
}

// Red when a request that is refused uses up what was ready.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_or_not_limited_uses_the_service_as_it_should() {
    let client = MemoryServer::new().client();
    let limit = client.semaphore("x", 1);
    let gone = MemoryServer::new()
        .client_with(ClientOptions::default())
        .unwrap();
    gone.shutdown().await.unwrap();
    let gone = gone.semaphore("x", 1);
    let choose = move |request: &http::request::Parts| -> Option<Semaphore> {
        match request.uri.path() {
            "/free" => None,
            "/gone" => Some(gone.clone()),
            _ => Some(limit.clone()),
        }
    };
    let layer = ConcurrencyLimitLayer::by(choose).pause(ms(1000));
    let (mock, mut handle) = mock::pair::<Request<()>, Answer>();
    let mut service = layer.layer(mock);

    handle.allow(1);
    let call = service.ready().await.unwrap().call(get("/free"));
    let (_, respond) = next(&mut handle).await;
    respond.send_response(answer());
    assert_eq!(call.await.unwrap().status(), StatusCode::OK);

    // The first asks, and so has the service; it gives it back unused.
    handle.allow(1);
    let refused = service.ready().await.unwrap().call(get("/gone")).await;
    assert_eq!(refused.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    // The second does not, and leaves the service ready.
    let refused = service.ready().await.unwrap().call(get("/gone")).await;
    assert_eq!(refused.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    let counts = layer.counts();
    assert_eq!((counts.closed, counts.opened, counts.admitted), (2, 0, 0));

    let open = layer.clone().when_away(WhenAway::Open);
    let mut service = open.layer(service.clone());
    handle.allow(2);
    let passed = service.ready().await.unwrap().call(get("/gone"));
    drop(passed);
    assert_eq!(open.counts().opened, 1);
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_service_pass_and_give_their_permit_back() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let fails = tower::service_fn(async |_: Request<()>| Err::<Answer, _>("broken"));
    let service = ConcurrencyLimitLayer::new(semaphore.clone()).layer(fails);
    for _ in 0..3 {
        assert_eq!(send(&service, get("/")).await.unwrap_err(), "broken");
    }
    let panics = tower::service_fn(async |_: Request<()>| -> Result<Answer, &str> {
        panic!("the handler panics")
    });
    let service = ConcurrencyLimitLayer::new(semaphore.clone()).layer(panics);
    let call = tokio::spawn(send(&service, get("/")));
    assert!(call.await.unwrap_err().is_panic());
    until_available(&semaphore, 1).await;
}

#[test]
fn layers_services_and_futures_cross_threads() {
    fn check<T: Send + Sync + Clone + 'static>(_: &T) {}
    fn sent<T: Send + 'static>(_: T) {}
    // Not run: that it compiles is the test.
    let _ = |semaphore: Semaphore, limiter: lockyard::RateLimiter| {
        let inner = tower::service_fn(crate::support::hello);
        let layer = ConcurrencyLimitLayer::new(semaphore);
        check(&layer);
        let mut service = layer.layer(inner);
        check(&service);
        sent(service.call(get("/")));
        let layer = RateLimitLayer::new(limiter);
        check(&layer);
        let mut service = layer.layer(inner);
        check(&service);
        sent(service.call(get("/")));
        let layer = OwnerLayer::new(|_| true);
        check(&layer);
        let mut service = layer.layer(inner);
        check(&service);
        sent(service.call(get("/")));
    };
    fn error<T: std::error::Error + Send + Sync + Clone + 'static>() {}
    error::<lockyard_tower::Refusal>();
}
