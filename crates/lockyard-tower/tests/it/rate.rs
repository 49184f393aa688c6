use std::convert::Infallible;

use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use lockyard::Rate;
use lockyard_memory::MemoryServer;
use lockyard_tower::{RateLimitLayer, Refusal, WhenAway};
use proptest::prelude::*;
use tokio::time::{Duration, Instant, sleep};
use tower::layer::Layer;
use tower::{ServiceBuilder, service_fn};

use crate::support::{Data, get, hello, ms, send, text};

const POLICY: &str = "ratelimit-policy";
const LIMIT: &str = "ratelimit";

fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let values = headers.get_all(name).into_iter();
    values.map(|value| value.to_str().unwrap()).collect()
}

// Red when headers are missing on what is allowed, when a time is rounded down, and when `t` is not when one more is allowed.
#[tokio::test(start_paused = true)]
async fn every_answer_tells_what_is_left_and_a_refusal_when_to_come_again() {
    let client = MemoryServer::new().client();
    let rate = Rate::per_minute(24).burst(3); // one each 2.5 s
    let layer = RateLimitLayer::new(client.rate_limiter("x", rate));
    let service = layer.layer(service_fn(hello));
    for (left, t) in [(2, 3), (1, 3), (0, 3)] {
        let response = send(&service, get("/")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let limit = format!("\"default\";r={left};t={t}");
        assert_eq!(values(response.headers(), LIMIT), [limit]);
        assert_eq!(values(response.headers(), POLICY), ["\"default\";q=3;w=8"]);
        assert!(!response.headers().contains_key(RETRY_AFTER));
        assert_eq!(text(response).await, "hello");
    }
    let response = send(&service, get("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(values(response.headers(), LIMIT), ["\"default\";r=0;t=3"]);
    assert_eq!(values(response.headers(), POLICY), ["\"default\";q=3;w=8"]);
    assert_eq!(values(response.headers(), "retry-after"), ["3"]);
    assert_eq!(
        response.headers()[CONTENT_TYPE],
        "text/plain; charset=utf-8"
    );
    let refusal = response.extensions().get::<Refusal>().unwrap();
    assert!(
        matches!(refusal, Refusal::RateLimited { name, retry_after, .. }
        if name == "x" && *retry_after > ms(2400) && *retry_after <= ms(2500))
    );
    assert_eq!(text(response).await, "too many requests, try again later\n");
    sleep(Duration::from_secs(3)).await;
    let response = send(&service, get("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let counts = layer.counts();
    assert_eq!((counts.admitted, counts.refused), (4, 1));
}

// Red when a request waits though its turn comes too late, and when it does not wait at all.
#[tokio::test(start_paused = true)]
async fn a_request_waits_only_if_its_turn_comes_in_time() {
    let client = MemoryServer::new().client();
    let limiter = client.rate_limiter("x", Rate::per_second(10).burst(1));
    let layer = RateLimitLayer::new(limiter.clone()).wait(ms(150));
    let service = layer.layer(service_fn(hello));
    let start = Instant::now();
    assert_eq!(
        send(&service, get("/")).await.unwrap().status(),
        StatusCode::OK
    );
    let second = tokio::spawn(send(&service, get("/")));
    sleep(ms(10)).await;
    let response = send(&service, get("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(start.elapsed() < ms(50));
    assert_eq!(second.await.unwrap().unwrap().status(), StatusCode::OK);
    assert!(start.elapsed() >= ms(100) && start.elapsed() < ms(150));
    // Without a bound, a long wait ends as well.
    let patient = RateLimitLayer::new(limiter).wait(Duration::MAX);
    let service = patient.layer(service_fn(hello));
    for _ in 0..20 {
        assert_eq!(
            send(&service, get("/")).await.unwrap().status(),
            StatusCode::OK
        );
    }
    assert!(start.elapsed() >= ms(2100));
}

// Red when headers replace each other, and when a key stands in them.
#[tokio::test(start_paused = true)]
async fn several_limits_tell_each_of_itself_and_none_of_its_key() {
    let client = MemoryServer::new().client();
    let all = client.rate_limiter("all", Rate::per_hour(10));
    let by_path = move |request: &Parts| -> Option<lockyard::RateLimiter> {
        let rest = request.uri.path().strip_prefix("/secret-")?;
        Some(client.rate_limiter(format!("tenant:{rest}"), Rate::per_hour(1)))
    };
    let tenants = RateLimitLayer::by(by_path).policy("a \"te\\nant\"\u{e9}\n");
    let service = ServiceBuilder::new()
        .layer(RateLimitLayer::new(all).policy("all"))
        .layer(tenants.clone())
        .service(service_fn(hello));
    let own = r#""a \"te\\nant\"__""#;
    for (path, expected) in [
        ("/free", vec!["\"all\";r=9;t=360".to_owned()]),
        (
            "/secret-a",
            vec![format!("{own};r=0;t=3600"), "\"all\";r=8;t=360".to_owned()],
        ),
        (
            "/secret-b",
            vec![format!("{own};r=0;t=3600"), "\"all\";r=7;t=360".to_owned()],
        ),
    ] {
        let response = send(&service, get(path)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(values(response.headers(), LIMIT), expected);
    }
    let response = send(&service, get("/secret-a")).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(values(response.headers(), RETRY_AFTER.as_str()), ["3600"]);
    assert_eq!(values(response.headers(), POLICY).len(), 2);
    assert!(!format!("{:?}", response.headers()).contains("secret"));
    let counts = tenants.counts();
    assert_eq!((counts.admitted, counts.refused), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_makes_no_sense_and_a_strange_key_are_refused_when_open_as_well() {
    let client = MemoryServer::new().client();
    let layer = RateLimitLayer::by(move |request: &Parts| {
        let name = request.uri.path().trim_matches('/');
        client.rate_limiter(name, Rate::new(0, ms(1)))
    })
    .when_away(WhenAway::Open);
    let fails = service_fn(async |_: Request<()>| Err::<Response<Data>, _>("it came through"));
    let service = layer.layer(fails);
    let response = send(&service, get("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let response = send(&service, get("/x")).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let refusal = response.extensions().get::<Refusal>();
    assert!(
        matches!(refusal, Some(Refusal::Misconfigured { .. })),
        "{refusal:?}"
    );
    assert_eq!((layer.counts().failed, layer.counts().opened), (2, 0));
}

/// The number after `name=` in a header.
fn number(header: &str, name: &str) -> u64 {
    let rest = header.split(&format!(";{name}=")).nth(1).unwrap();
    let end = rest.find(';').unwrap_or(rest.len());
    rest[..end].parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Red when any of the times is rounded down.
    #[test]
    fn whoever_heeds_the_headers_is_never_refused(
        permits in 1u32..2000, period_ms in 1u64..100_000, burst in 1u32..20,
        pauses in prop::collection::vec(0u64..3000, 1..30),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let client = MemoryServer::new().client();
            let rate = Rate::new(permits, ms(period_ms)).burst(burst);
            let layer = RateLimitLayer::new(client.rate_limiter("x", rate));
            let service = layer.layer(service_fn(async |_: Request<()>| {
                Ok::<_, Infallible>(Response::new(Data::from("hello")))
            }));
            for pause in pauses {
                sleep(ms(pause)).await;
                let response = send(&service, get("/")).await.unwrap();
                let limit = values(response.headers(), LIMIT)[0];
                let policy = values(response.headers(), POLICY)[0];
                let (remaining, next) = (number(limit, "r"), number(limit, "t"));
                let (quota, window) = (number(policy, "q"), number(policy, "w"));
                assert!(remaining <= quota && quota == u64::from(burst) && next <= window && next > 0);
                let refused = response.status() == StatusCode::TOO_MANY_REQUESTS;
                if refused {
                    assert_eq!(values(response.headers(), "retry-after"), [next.to_string()]);
                    assert_eq!(remaining, 0);
                }
                if remaining == 0 {
                    sleep(Duration::from_secs(next)).await;
                    let response = send(&service, get("/")).await.unwrap();
                    assert_eq!(response.status(), StatusCode::OK, "{rate:?} {limit}");
                } else {
                    let response = send(&service, get("/")).await.unwrap();
                    assert_eq!(response.status(), StatusCode::OK, "{rate:?} {limit}");
                }
            }
        });
    }
}
