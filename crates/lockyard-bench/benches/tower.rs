//! What the tower layers cost beside what they ask: each with its primitive alone, on a server in memory.

#![expect(
    missing_docs,
    reason = "criterion's macros write functions without docs"
)]

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use lockyard::{Client, Rate};
use lockyard_memory::MemoryServer;
use lockyard_tower::{ConcurrencyLimitLayer, OwnerClientLayer, OwnerLayer, RateLimitLayer};
use tokio::runtime::{Builder, Runtime};
use tower::layer::Layer;
use tower::{Service, ServiceExt, service_fn};

criterion_group!(benches, nothing, permits, rates, owners);
criterion_main!(benches);

const WAIT: Duration = Duration::from_secs(1);

/// A service without layers.
fn nothing(criterion: &mut Criterion) {
    let (tokio, _) = start();
    bench(criterion, &tokio, "tower/nothing", &service_fn(hello));
}

fn permits(criterion: &mut Criterion) {
    let (tokio, client) = start();
    let semaphore = client.semaphore("x", 1000);
    criterion.bench_function("tower/permit/alone", |bencher| {
        bencher.iter(|| {
            let permit = tokio.block_on(semaphore.try_acquire_for(WAIT));
            drop(permit.expect("the server is there"));
        });
    });
    let one = ConcurrencyLimitLayer::new(semaphore);
    let service = one.layer(service_fn(hello));
    bench(criterion, &tokio, "tower/permit/layer", &service);
    let keyed = ConcurrencyLimitLayer::by(move |request| {
        let tenant = request.headers.get("x-tenant")?.to_str().ok()?;
        Some(client.semaphore(format!("tenant:{tenant}"), 1000))
    });
    let service = keyed.layer(service_fn(hello));
    bench(criterion, &tokio, "tower/permit/by tenant", &service);
}

fn rates(criterion: &mut Criterion) {
    let (tokio, client) = start();
    let limiter = client.rate_limiter("x", Rate::per_second(1_000_000));
    criterion.bench_function("tower/rate/alone", |bencher| {
        bencher.iter(|| {
            tokio
                .block_on(limiter.try_acquire(1))
                .expect("the server is there")
        });
    });
    let one = RateLimitLayer::new(limiter);
    let service = one.layer(service_fn(hello));
    bench(criterion, &tokio, "tower/rate/layer", &service);
    let keyed = RateLimitLayer::by(move |request| {
        let tenant = request.headers.get("x-tenant")?.to_str().ok()?;
        Some(client.rate_limiter(format!("tenant:{tenant}"), Rate::per_second(1_000_000)))
    });
    let service = keyed.layer(service_fn(hello));
    bench(criterion, &tokio, "tower/rate/by tenant", &service);
}

/// Nothing is asked here.
fn owners(criterion: &mut Criterion) {
    let (tokio, client) = start();
    let service = OwnerLayer::new(|_| true).layer(service_fn(hello));
    bench(criterion, &tokio, "tower/owner/server", &service);
    let service = OwnerClientLayer::new(|_| true).layer(service_fn(hello));
    let owner = client.owner();
    criterion.bench_function("tower/owner/client", |bencher| {
        bencher.iter(|| tokio.block_on(owner.scope(call(&service))));
    });
}

/// Sends requests to a service.
fn bench<S, B>(criterion: &mut Criterion, tokio: &Runtime, name: &str, service: &S)
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Error = Infallible>,
{
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| tokio.block_on(call(service)));
    });
}

/// Sends a request with a tenant and an owner, and reads the answer to its end.
async fn call<S, B>(service: &S)
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Error = Infallible>,
{
    let request = Request::get("/")
        .header("x-tenant", "blue")
        .header("lockyard-owner", "67e55044-10b1-426f-9247-bb680e5fe0c8:42")
        .body(())
        .expect("the headers are good");
    let Ok(response) = service.clone().oneshot(request).await;
    assert!(response.status().is_success());
    let Ok(body) = response.into_body().collect().await;
    black_box(body);
}

async fn hello(_: Request<()>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

/// A client of a server in memory; its watchdog runs on the same thread, so that the two need not wait for each other.
fn start() -> (Runtime, Client) {
    let tokio = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("timers can be had");
    let client = {
        let _inside = tokio.enter();
        MemoryServer::new().client()
    };
    (tokio, client)
}
