//! The process that rewrites the configuration.

use lockyard::RwLock;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use crate::config::Config;

pub async fn run(lock: &RwLock, config: &Config) -> anyhow::Result<()> {
    let mut told = BufReader::new(stdin()).lines();
    while told.next_line().await?.is_some() {
        let writing = lock.write().await?;
        let version = config.version()? + 1;
        config.begin(version)?;
        println!("is alone");
        told.next_line().await?;
        config.finish(version)?;
        let reading = writing.downgrade().await?;
        println!("reads version {}", config.version()?);
        told.next_line().await?;
        reading.release().await?;
    }
    Ok(())
}
