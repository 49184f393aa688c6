//! How the story starts its processes, talks to them and reads what they say.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use axum::Router;

/// Serves routes on a free port, and says on which.
pub async fn serve(routes: Router) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, routes).await?)
}

/// This program in another role; it ends with the story.
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    url: Option<String>,
}

impl Process {
    pub fn start(role: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .args(role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self {
            child,
            input,
            output,
            url: None,
        })
    }

    /// Where the service listens.
    pub fn url(&mut self) -> anyhow::Result<String> {
        if self.url.is_none() {
            self.url = Some(self.line()?);
        }
        self.url.clone().context("no address")
    }

    /// Sends a POST without waiting for the answer.
    pub fn post(&mut self, path: &str) -> anyhow::Result<()> {
        let url = self.url()?;
        let address = url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "POST /{path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\n\r\n"
        )?;
        // The service drops a request whose connection is closed, so this one stays open.
        std::mem::forget(stream);
        Ok(())
    }

    /// Passes on the process's next line, which is to be this.
    pub fn tell(&mut self, expected: &str) -> anyhow::Result<()> {
        let line = self.line()?;
        println!("{line}");
        ensure!(line == expected, "expected {expected:?}, not {line:?}");
        Ok(())
    }

    /// Has the stranger try, and passes on what it says.
    pub fn ask(&mut self, expected: &str) -> anyhow::Result<()> {
        writeln!(self.input)?;
        self.tell(&format!("C: {expected}"))
    }

    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(
            self.output.read_line(&mut line)? > 0,
            "a process ended early"
        );
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
