//! Service A: holds the order while it calls service B.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lockyard::Client;
use lockyard_tower::{OwnerClient, OwnerClientLayer};
use tokio::sync::Notify;
use tower::ServiceExt;
use tower::layer::Layer;

use crate::{SECRET, service};

#[derive(Clone)]
struct Service {
    locks: Client,
    http: OwnerClient<Http<HttpConnector, Body>>,
    b: String,
    go_on: Arc<Notify>,
}

pub async fn serve(redis: &str, b: &str) -> anyhow::Result<()> {
    // Only B is called, and B may know our owners.
    let owners = OwnerClientLayer::new(|_| true);
    let service = Service {
        locks: Client::connect(redis).await?,
        http: owners.layer(Http::builder(TokioExecutor::new()).build_http()),
        b: b.to_owned(),
        go_on: Arc::default(),
    };
    let go_on = service.go_on.clone();
    let routes = Router::new()
        .route("/order", post(order))
        .route("/go-on", post(async move || go_on.notify_one()))
        .with_state(service);
    service::serve(routes).await
}

/// Handles an order in a scope of its own, so that whatever it calls is part of it.
async fn order(State(service): State<Service>) -> Result<(), StatusCode> {
    let owner = service.locks.owner();
    owner.scope(hold_and_call(service)).await
}

async fn hold_and_call(service: Service) -> Result<(), StatusCode> {
    let order = service.locks.lock("order:42");
    let guard = order
        .acquire()
        .await
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    println!("A: holds order:42, calls B");

    let request = Request::post(format!("http://{}/reserve", service.b))
        .header(SECRET.0, SECRET.1)
        .body(Body::empty())
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    match guard.run(service.http.oneshot(request)).await {
        Ok(Ok(answer)) => println!("A: B answered {}", answer.status()),
        Ok(Err(error)) => println!("A: {error}"),
        Err(lost) => println!("A: {lost}"),
    }

    service.go_on.notified().await;
    guard.release().await.map_err(|_| StatusCode::CONFLICT)?;
    println!("A: released");
    Ok(())
}
