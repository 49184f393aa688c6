//! What a service tells Prometheus of its locks, and a board for Grafana beside it (`board.json`).
//!
//! The crate `lockyard` needs its feature `metrics`, and the program a recorder: here that of
//! `metrics-exporter-prometheus`, whose text an axum route serves.
//! A label says what the locks are for; their names, of which there may be many, are told nobody.
//!
//! Run it with `cargo run --example metrics`; it starts its own Redis, which must be installed.
//! With the argument `serve` it goes on until it is stopped, and says where Prometheus can ask.

use std::future::{pending, ready};
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::Router;
use axum::routing::get;
use lockyard::{Client, Lease};
use lockyard_testkit::Server;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;

/// Bounds of the histograms of time, s.
const SECONDS: [f64; 8] = [0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0];
/// Bounds of the histogram of queues.
const LENGTHS: [f64; 6] = [1.0, 2.0, 5.0, 20.0, 100.0, 1000.0];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Before the first client, so that it hears what each name means.
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Full("lockyard_queue_length".into()), &LENGTHS)?
        .install_recorder()?;
    let url = serve(recorder).await?;
    let server = Server::start()?;
    work(&server).await?;
    if std::env::args()
        .nth(1)
        .is_some_and(|argument| argument == "serve")
    {
        println!("{url}");
        pending::<()>().await;
    }
    let text = reqwest::get(&url).await?.text().await?;
    ensure!(!text.contains("stock:42"), "a name is told");
    print!("{text}");
    Ok(())
}

/// Serves what Prometheus asks for, and returns where.
async fn serve(recorder: PrometheusHandle) -> anyhow::Result<String> {
    let upkeep = recorder.clone();
    tokio::spawn(async move {
        // Else its memory grows while nobody asks.
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            upkeep.run_upkeep();
        }
    });
    let routes = Router::new().route("/metrics", get(move || ready(recorder.render())));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/metrics", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(url)
}

/// Some of what happens to a lock in its life.
async fn work(server: &Server) -> anyhow::Result<()> {
    let client = Client::connect(&server.url()).await?;
    let stock = client.lock("stock:42").with_label("stock");
    for _ in 0..3 {
        stock.acquire().await?.release().await?;
    }
    // Contention: one does not wait, and one does.
    let guard = stock.acquire().await?;
    ensure!(stock.try_acquire().await?.is_none(), "it is held");
    let waiting = tokio::spawn({
        let stock = stock.clone();
        async move { stock.acquire().await?.release().await }
    });
    while stock.inspect().await?.waiting == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guard.release().await?;
    waiting.await??;
    // An operator takes it away.
    let guard = stock.acquire().await?;
    stock.force_release().await?;
    guard.lost().await;
    // The server dies under a holder.
    let lease = Lease::Renewed(Duration::from_millis(900));
    let permit = client.semaphore("exports", 2).with_label("exports");
    let permit = permit.with_lease(lease).acquire().await?;
    server.kill();
    permit.lost().await;
    drop(permit);
    client
        .shutdown()
        .await
        .err()
        .context("the server is gone")?;
    Ok(())
}
