//! The stock in PostgreSQL, once with tokens and once, for comparison, without.

use std::path::Path;

use anyhow::Context;
use lockyard::FencingToken;
use tokio_postgres::{Client, Config, NoTls};

/// A connection to the database.
pub struct Ledger {
    client: Client,
}

impl Ledger {
    pub async fn open(socket: &Path) -> anyhow::Result<Self> {
        let (client, connection) = Config::new()
            .host_path(socket)
            .user("postgres")
            .connect(NoTls)
            .await
            .context("cannot connect to PostgreSQL")?;
        // It carries the data until the client is dropped; an error is reported to the client as well.
        tokio::spawn(connection);
        Ok(Self { client })
    }

    pub async fn create(&self) -> anyhow::Result<()> {
        let tables = "
            CREATE TABLE fenced (item TEXT PRIMARY KEY, amount INT NOT NULL, token BIGINT NOT NULL);
            INSERT INTO fenced VALUES ('chairs', 100, 0);
            CREATE TABLE unfenced (item TEXT PRIMARY KEY, amount INT NOT NULL);
            INSERT INTO unfenced VALUES ('chairs', 100);";
        Ok(self.client.batch_execute(tables).await?)
    }

    pub async fn fenced(&self) -> anyhow::Result<i32> {
        self.amount("SELECT amount FROM fenced WHERE item = 'chairs'")
            .await
    }

    pub async fn unfenced(&self) -> anyhow::Result<i32> {
        self.amount("SELECT amount FROM unfenced WHERE item = 'chairs'")
            .await
    }

    /// Writes what a holder has computed; `false` if somebody with a greater token has written.
    ///
    /// One statement compares and writes, so nobody comes in between.
    pub async fn write_fenced(&self, amount: i32, token: FencingToken) -> anyhow::Result<bool> {
        let update =
            "UPDATE fenced SET amount = $1, token = $2 WHERE item = 'chairs' AND token <= $2";
        let token = i64::try_from(token)?;
        Ok(self.client.execute(update, &[&amount, &token]).await? == 1)
    }

    /// Writes what a holder has computed, whatever has happened since.
    pub async fn write_unfenced(&self, amount: i32) -> anyhow::Result<()> {
        let update = "UPDATE unfenced SET amount = $1 WHERE item = 'chairs'";
        self.client.execute(update, &[&amount]).await?;
        Ok(())
    }

    async fn amount(&self, select: &str) -> anyhow::Result<i32> {
        Ok(self.client.query_one(select, &[]).await?.get(0))
    }
}
