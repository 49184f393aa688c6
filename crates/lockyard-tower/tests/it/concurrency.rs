use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use lockyard_memory::MemoryServer;
use lockyard_tower::{ConcurrencyLimitLayer, Refusal, WhenAway};
use tokio::time::{Duration, Instant};
use tower::layer::Layer;
use tower::service_fn;

use crate::support::{forever, get, hello, ms, send, text, until_available, until_waiting};

// Red when a wait has no bound, and when whoever is in turn within it is not let in.
#[tokio::test(start_paused = true)]
async fn a_request_waits_its_turn_for_as_long_as_it_is_told() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let held = semaphore.acquire().await.unwrap();
    let layer = ConcurrencyLimitLayer::new(semaphore.clone()).wait(ms(300));
    let service = layer.layer(service_fn(hello));

    let start = Instant::now();
    let response = send(&service, get("/")).await.unwrap();
    assert!(start.elapsed() >= ms(300) && start.elapsed() < ms(700));
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let refusal = response.extensions().get::<Refusal>();
    assert!(matches!(refusal, Some(Refusal::Busy { name, .. }) if name == "x"));
    assert_eq!(
        text(response).await,
        "too many requests at once, try again later\n"
    );

    let waiting = tokio::spawn(send(&service, get("/")));
    until_waiting(&semaphore, 1).await;
    held.release().await.unwrap();
    let response = waiting.await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(text(response).await, "hello");
    let counts = layer.counts();
    assert_eq!((counts.admitted, counts.refused), (1, 1));
    assert_eq!(
        (counts.opened, counts.closed, counts.failed, counts.lost),
        (0, 0, 0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_one_attempt_and_the_longest_has_no_end() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let held = semaphore.acquire().await.unwrap();
    let layer = ConcurrencyLimitLayer::new(semaphore.clone());
    let at_once = layer.clone().wait(Duration::ZERO).layer(service_fn(hello));
    let for_ever = layer.wait(Duration::MAX).layer(service_fn(hello));

    let start = Instant::now();
    let response = send(&at_once, get("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(start.elapsed() < ms(10));

    let waiting = tokio::spawn(send(&for_ever, get("/")));
    tokio::time::sleep(Duration::from_secs(10 * 60)).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().status(), StatusCode::OK);
}

// Red when a permit is not dropped with the future, and when a place in the queue is not.
#[tokio::test(start_paused = true)]
async fn whoever_hangs_up_gives_its_permit_or_its_place_back() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let layer = ConcurrencyLimitLayer::new(semaphore.clone()).wait(Duration::MAX);
    let slow = tokio::spawn(send(&layer.layer(service_fn(forever)), get("/")));
    until_available(&semaphore, 0).await;
    let queued = tokio::spawn(send(&layer.layer(service_fn(forever)), get("/")));
    until_waiting(&semaphore, 1).await;
    queued.abort();
    until_waiting(&semaphore, 0).await;
    let next = tokio::spawn(send(&layer.layer(service_fn(hello)), get("/")));
    until_waiting(&semaphore, 1).await;
    slow.abort();
    assert_eq!(next.await.unwrap().unwrap().status(), StatusCode::OK);
    until_available(&semaphore, 1).await;
}

fn tenant(request: &Parts) -> Option<&str> {
    request.headers.get("x-tenant")?.to_str().ok()
}

// Red when all requests share one semaphore, and when one without a tenant is limited.
#[tokio::test(start_paused = true)]
async fn each_key_has_a_limit_of_its_own_and_requests_without_one_have_none() {
    let client = MemoryServer::new().client();
    let (one, two) = (
        client.semaphore("tenant:one", 1),
        client.semaphore("tenant:two", 2),
    );
    let layer = ConcurrencyLimitLayer::by(move |request: &Parts| {
        let tenant = tenant(request)?;
        let limit = if tenant == "one" { 1 } else { 2 };
        Some(client.semaphore(format!("tenant:{tenant}"), limit))
    })
    .wait(Duration::ZERO);
    let slow = layer.layer(service_fn(forever));
    let request = |tenant: &str| {
        let mut request = get("/");
        request
            .headers_mut()
            .insert("x-tenant", tenant.parse().unwrap());
        request
    };
    let mut running = vec![
        tokio::spawn(send(&slow, request("one"))),
        tokio::spawn(send(&slow, request("two"))),
        tokio::spawn(send(&slow, get("/"))),
    ];
    until_available(&one, 0).await;
    until_available(&two, 1).await;
    let quick = layer.layer(service_fn(hello));
    let refused = send(&quick, request("one")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    running.push(tokio::spawn(send(&slow, request("two"))));
    until_available(&two, 0).await;
    let refused = send(&quick, request("two")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    for _ in 0..3 {
        let free = send(&quick, get("/")).await.unwrap();
        assert_eq!(free.status(), StatusCode::OK);
    }
    let counts = layer.counts();
    assert_eq!((counts.admitted, counts.refused), (3, 2));
    running.iter().for_each(|task| task.abort());
    until_available(&one, 1).await;
    until_available(&two, 2).await;
}

// Red when what is in a request opens a limit: when an invalid name, or a limit of zero, counts as a server that is away.
#[tokio::test(start_paused = true)]
async fn nobody_gets_round_an_open_limit_by_a_strange_key() {
    let client = MemoryServer::new().client();
    let shut = client.semaphore("shut", 5);
    shut.set_limit(0).await.unwrap();
    let layer = ConcurrencyLimitLayer::by(move |request: &Parts| {
        client.semaphore(tenant(request).unwrap_or_default(), 1)
    })
    .when_away(WhenAway::Open);
    let service = layer.layer(service_fn(
        async |_| -> Result<Response<crate::support::Data>, &str> { Err("it came through") },
    ));
    let long = "x".repeat(1025);
    for name in ["", "a{b", "}{", "{}", &long] {
        let mut request = get("/");
        request
            .headers_mut()
            .insert("x-tenant", name.parse().unwrap());
        let response = send(&service, request).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{name:?}");
        let refusal = response.extensions().get::<Refusal>();
        assert!(
            matches!(refusal, Some(Refusal::InvalidKey { .. })),
            "{refusal:?}"
        );
        assert!(!text(response).await.contains("invalid name"));
    }
    let mut request = get("/");
    request
        .headers_mut()
        .insert("x-tenant", "shut".parse().unwrap());
    let response = send(&service, request).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let counts = layer.counts();
    assert_eq!((counts.failed, counts.refused, counts.opened), (5, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_can_be_answered_otherwise_and_stays_known_as_one() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let _held = semaphore.acquire().await.unwrap();
    let layer = ConcurrencyLimitLayer::new(semaphore)
        .wait(Duration::ZERO)
        .respond(|refusal| {
            let mut response = refusal.response().map(|_| Bytes::from_static(b"{}"));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        });
    let response = send(&layer.layer(service_fn(hello)), get("/"))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    assert!(response.extensions().get::<Refusal>().is_some());
    assert_eq!(text(response).await, "{}");
}
