//! Service B: enters the hold of whoever calls.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use lockyard::{Client, Lease, Owner};
use tokio::sync::Notify;

use crate::{LEASE_OF_B, OWNER, service};

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
        .with_state(service);
    service::serve(routes).await
}

/// Reserves what the order needs, under its caller's hold.
///
/// The header is trusted here, for only our own services reach B; whoever knows an owner can enter what it holds.
async fn reserve(State(service): State<Service>, headers: HeaderMap) -> Result<(), StatusCode> {
    let owner = headers
        .get(OWNER)
        .and_then(|text| text.to_str().ok())
        .ok_or(StatusCode::BAD_REQUEST)?;
    let owner: Owner = owner.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    let order = service
        .locks
        .lock("order:42")
        .with_lease(Lease::Renewed(LEASE_OF_B));
    let entered = order
        .reenter(&owner)
        .await
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    // The caller has lost its hold meanwhile: better not to touch the order.
    let guard = entered.ok_or(StatusCode::CONFLICT)?;
    println!("B: re-entered A's hold");

    service.go_on.notified().await;
    guard.release().await.map_err(|_| StatusCode::CONFLICT)?;
    println!("B: done, released its own hold");
    Ok(())
}
