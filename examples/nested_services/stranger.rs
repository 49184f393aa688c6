//! A third process, which is not part of the call: it tries to get the order whenever it is asked.

use std::time::Duration;

use lockyard::Client;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

pub async fn run(redis: &str) -> anyhow::Result<()> {
    let order = Client::connect(redis).await?.lock("order:42");
    let mut asked = BufReader::new(stdin()).lines();
    while asked.next_line().await?.is_some() {
        match order.try_acquire_for(Duration::from_millis(300)).await? {
            Some(guard) => {
                guard.release().await?;
                println!("C: got in");
            }
            None => println!("C: stayed out"),
        }
    }
    Ok(())
}
