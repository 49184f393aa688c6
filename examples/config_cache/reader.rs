//! A process that reads the configuration whenever it is told to.

use lockyard::RwLock;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use crate::config::Config;

pub async fn run(lock: &RwLock, config: &Config) -> anyhow::Result<()> {
    let mut told = BufReader::new(stdin()).lines();
    while told.next_line().await?.is_some() {
        let reading = lock.read().await?;
        println!("reads version {}", config.version()?);
        // It keeps the lock for as long as the story needs.
        told.next_line().await?;
        reading.release().await?;
    }
    Ok(())
}
