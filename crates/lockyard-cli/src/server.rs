//! Which server the locks are on, and how it is reached.

use std::fmt;

use anyhow::Context;
use clap::Args;
use lockyard::{Client, ClientOptions, Lease};

/// The variable that names the server.
pub(crate) const URL: &str = "LOCKYARD_URL";
/// The variable that says what every key begins with.
pub(crate) const PREFIX: &str = "LOCKYARD_PREFIX";

/// Which server the locks are on.
#[derive(Args)]
pub(crate) struct Server {
    /// The server: redis://[user:password@]host[:port][/database], rediss://… for TLS, or redis+unix:///path
    ///
    /// Put a URL with a password into the variable: arguments can be read by every user of the machine.
    #[arg(long, env = URL, hide_env_values = true)]
    pub(crate) url: String,

    /// What every key begins with
    #[arg(long, env = PREFIX, default_value = "lockyard:", value_name = "TEXT")]
    pub(crate) prefix: String,
}

impl Server {
    /// Connects, within 3 s; a lease is given to every lock that this client acquires.
    pub(crate) async fn connect(&self, lease: Lease) -> anyhow::Result<Client> {
        let options = ClientOptions::from_url(&self.url)?
            .prefix(&self.prefix)
            .lease(lease);
        Client::with_options(options)
            .await
            .context("cannot connect")
    }
}

impl fmt::Debug for Server {
    /// Leaves out the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
