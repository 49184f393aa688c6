//! One instance of the API.

use std::net::Ipv4Addr;

use axum::Router;
use axum::http::request::Parts;
use axum::routing::get;
use lockyard::{Client, Rate, RateLimiter};
use lockyard_tower::{RateLimitLayer, WhenAway};

/// Whose request it is.
///
/// A real service would take it from a token that it has checked, for whoever chooses the tenant chooses the limit.
pub const TENANT: &str = "x-tenant";

pub async fn serve(redis: &str) -> anyhow::Result<()> {
    let client = Client::connect(redis).await?;
    let limits = RateLimitLayer::by(move |request: &Parts| limit(&client, request))
        .policy("requests-of-a-tenant")
        .when_away(WhenAway::Open);
    let routes = Router::new()
        .route("/", get(async || "hello"))
        .layer(limits);

    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    Ok(axum::serve(listener, routes).await?)
}

/// The limiter of a request's tenant; requests without a tenant share one.
fn limit(client: &Client, request: &Parts) -> RateLimiter {
    let tenant = request.headers.get(TENANT);
    let tenant = tenant.and_then(|tenant| tenant.to_str().ok());
    let name = format!("tenant:{}", tenant.unwrap_or_default());
    client.rate_limiter(name, Rate::per_hour(6))
}
