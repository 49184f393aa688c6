//! One worker, and its share.

use anyhow::Context;
use lockyard::Client;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use crate::{loaded, sorted};

pub async fn run(redis: &str, share: &str) -> anyhow::Result<()> {
    let client = Client::connect(redis).await?;
    let mut told = BufReader::new(stdin()).lines();
    println!("worker {share}: loads");
    // The work takes as long as the story needs.
    told.next_line().await?.context("no end of the work")?;
    loaded(&client).count_down().await?;
    println!("worker {share}: has loaded");

    loaded(&client).wait().await?;
    println!("worker {share}: sorts");
    told.next_line().await?.context("no end of the work")?;
    sorted(&client).count_down().await?;
    // So that nothing of it is still under way when the process ends.
    client.shutdown().await?;
    Ok(())
}
