//! An API in two processes that share one limit: each tenant may send six requests an hour, whichever instance they
//! reach.
//!
//! What is left stands in the headers of each answer. When Redis is gone the API goes on, unlimited, as its layer says.
//!
//! Run it with `cargo run --example rate_limited_api`; it starts its own Redis, which must be installed.

mod api;

use anyhow::Context;
use lockyard_testkit::Server;
use processes::Process;
use reqwest::header::{HeaderMap, RETRY_AFTER};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => story().await,
        ["instance", redis] => api::serve(redis).await,
        _ => anyhow::bail!("run it without arguments"),
    }
}

async fn story() -> anyhow::Result<()> {
    let server = Server::start()?;
    let mut a = Process::start(&["instance", &server.url()])?;
    let mut b = Process::start(&["instance", &server.url()])?;
    let (a, b) = (("A", a.line()?), ("B", b.line()?));

    println!("== a tenant asks two instances in turn");
    for instance in [&a, &b, &a, &b, &a, &b, &a, &b] {
        ask(instance, "blue").await?;
    }
    println!("== another tenant has a limit of its own");
    ask(&b, "red").await?;
    println!("== Redis is gone");
    server.kill();
    ask(&a, "blue").await?;
    ask(&b, "red").await?;
    Ok(())
}

/// Sends one request of a tenant, and says what came back.
async fn ask((name, address): &(&str, String), tenant: &str) -> anyhow::Result<()> {
    let url = format!("http://{address}/");
    let request = reqwest::Client::new().get(url).header(api::TENANT, tenant);
    let response = request.send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.text().await?;
    let left = match (remaining(&headers), wait(&headers)) {
        (_, Some(minutes)) => format!("come again in {minutes} min"),
        (Some(left), None) => format!("{left} left"),
        (None, None) => "nobody counts".to_owned(),
    };
    println!("{name} to {tenant}: {status}, {left}: {}", body.trim());
    Ok(())
}

/// The parameter `r` of the header `RateLimit`.
fn remaining(headers: &HeaderMap) -> Option<&str> {
    let limit = headers.get("ratelimit")?.to_str().ok()?;
    limit.split(';').find_map(|part| part.strip_prefix("r="))
}

fn wait(headers: &HeaderMap) -> Option<u64> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = seconds.parse().context("no number of seconds").ok()?;
    Some(seconds.div_ceil(60))
}
