//! Service B: acquires what its caller holds, and is let in.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::post;
use lockyard::Client;
use lockyard_tower::OwnerLayer;
use tokio::sync::Notify;

use crate::{SECRET, service};

#[derive(Clone)]
struct Service {
    locks: Client,
    go_on: Arc<Notify>,
}

pub async fn serve(redis: &str) -> anyhow::Result<()> {
    let service = Service {
        locks: Client::connect(redis).await?,
        go_on: Arc::default(),
    };
    let go_on = service.go_on.clone();
    let routes = Router::new()
        .route("/reserve", post(reserve))
        .route("/go-on", post(async move || go_on.notify_one()))
        .layer(OwnerLayer::new(is_ours))
        .with_state(service);
    service::serve(routes).await
}

/// Whether a request comes from one of our services; only they may name an owner.
fn is_ours(request: &Parts) -> bool {
    let secret = request.headers.get(SECRET.0);
    secret.is_some_and(|secret| secret == SECRET.1)
}

/// Reserves what the order needs, under its caller's hold if it has one.
async fn reserve(State(service): State<Service>) -> Result<(), StatusCode> {
    let order = service.locks.lock("order:42");
    let guard = order
        .acquire()
        .await
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    println!("B: entered A's hold");

    service.go_on.notified().await;
    guard.release().await.map_err(|_| StatusCode::CONFLICT)?;
    println!("B: done, released its own hold");
    Ok(())
}
