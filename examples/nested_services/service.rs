//! A service: routes in a process of their own.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};

use axum::Router;
use processes::Process;

/// Serves routes on a free port, and says on which.
pub async fn serve(routes: Router) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    Ok(axum::serve(listener, routes).await?)
}

/// A service, seen from the story.
pub struct Service {
    pub process: Process,
    pub address: String,
}

impl Service {
    pub fn start(role: &[&str]) -> anyhow::Result<Self> {
        let mut process = Process::start(role)?;
        let address = process.line()?;
        Ok(Self { process, address })
    }

    /// Sends a POST without waiting for the answer.
    pub fn post(&self, path: &str) -> anyhow::Result<()> {
        let address = &self.address;
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "POST /{path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\n\r\n"
        )?;
        // The service drops a request whose connection is closed, so this one stays open.
        std::mem::forget(stream);
        Ok(())
    }

    /// Passes on its next line, which is to be this.
    pub fn tell(&mut self, expected: &str) -> anyhow::Result<()> {
        self.process.tell(expected)
    }
}
