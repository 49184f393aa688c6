//! Two services in two processes, and one lock held over a call from one to the other, as in `nested_services`; but no
//! handler knows of a header.
//!
//! Service A works in the scope of an owner, and its HTTP client sends that owner along; service B runs each call in the
//! scope of the owner that came with it, and simply acquires. A third process stays out the whole time, and gets in
//! nowhere by naming A's owner, for B asks who may.
//!
//! Run it with `cargo run --example nested_layers`; it starts its own Redis, which must be installed.

#[path = "../nested_services/service.rs"]
mod service;
mod service_a;
mod service_b;
#[path = "../nested_services/stranger.rs"]
mod stranger;

use anyhow::Context;
use lockyard::Client;
use lockyard_testkit::Server;
use processes::Process;

use crate::service::Service;

/// Only our services know it: B believes what a request says about its owner if it has this.
const SECRET: (&str, &str) = ("x-internal", "7c2f41");

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => story().await,
        ["service-a", redis, b] => service_a::serve(redis, b).await,
        ["service-b", redis] => service_b::serve(redis).await,
        ["stranger", redis] => stranger::run(redis).await,
        _ => anyhow::bail!("run it without arguments"),
    }
}

async fn story() -> anyhow::Result<()> {
    let server = Server::start()?;
    let redis = server.url();
    let mut b = Service::start(&["service-b", &redis])?;
    let mut a = Service::start(&["service-a", &redis, &b.address])?;
    let mut c = Process::start(&["stranger", &redis])?;

    println!("== A calls B");
    a.post("order")?;
    a.tell("A: holds order:42, calls B")?;
    b.tell("B: entered A's hold")?;
    c.write("try")?;
    c.tell("C: stayed out")?;
    claim(&redis, &b.address).await?;
    b.post("go-on")?;
    b.tell("B: done, released its own hold")?;
    a.tell("A: B answered 200 OK")?;
    a.post("go-on")?;
    a.tell("A: released")?;
    c.write("try")?;
    c.tell("C: got in")?;
    b.process.kill()?;
    a.process.kill()
}

/// Names A's owner in a request to B, without the secret.
async fn claim(redis: &str, b: &str) -> anyhow::Result<()> {
    let order = Client::connect(redis).await?.lock("order:42");
    let holders = order.inspect().await?.holders;
    let owner = &holders.first().context("nobody holds it")?.owner;
    let request = reqwest::Client::new()
        .post(format!("http://{b}/reserve"))
        .header("lockyard-owner", owner.to_string());
    let status = request.send().await?.status();
    println!("   whoever only names A's owner gets {status}");
    Ok(())
}
