//! Service A: holds the order while it calls service B.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use lockyard::Client;
use tokio::sync::Notify;

use crate::{OWNER, service};

#[derive(Clone)]
struct Service {
    locks: Client,
    http: reqwest::Client,
    b: String,
    go_on: Arc<Notify>,
}

pub async fn serve(redis: &str, b: &str) -> anyhow::Result<()> {
    let service = Service {
        locks: Client::connect(redis).await?,
        http: reqwest::Client::new(),
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

/// Handles an order: whatever this and the services behind it do to it, nobody else does at the same time.
async fn order(State(service): State<Service>) -> Result<(), StatusCode> {
    let owner = service.locks.owner();
    let order = service.locks.lock("order:42").with_owner(&owner);
    let guard = order
        .acquire()
        .await
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    println!("A: holds order:42, calls B");

    let call = service
        .http
        .post(format!("http://{}/reserve", service.b))
        .header(OWNER, owner.to_string())
        .send();
    match guard.run(call).await {
        Ok(Ok(answer)) => println!("A: B answered {}", answer.status()),
        Ok(Err(_)) => println!("A: B is gone, but the hold is {:?}", guard.state()),
        Err(lost) => println!("A: {lost}"),
    }

    service.go_on.notified().await;
    guard.release().await.map_err(|_| StatusCode::CONFLICT)?;
    println!("A: released");
    Ok(())
}
