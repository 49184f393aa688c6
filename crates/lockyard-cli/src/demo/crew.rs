//! The worker processes, seen from their parent.
//!
//! They end with this value at the latest: the runtime kills those it still has, and if this
//! process dies without unwinding, the system closes their standard input (`worker::parent`).

use std::env;
use std::process::{ExitStatus, Stdio};

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::cli::Terms;
use crate::line::Line;
use crate::scenario::Scenario;

/// Something that a worker did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    Said(Line),
    Ended,
}

/// All workers of one run, numbered from 0.
#[derive(Debug)]
pub(crate) struct Crew {
    workers: Vec<(Child, ChildStdin)>,
    events: mpsc::UnboundedReceiver<(usize, Event)>,
}

impl Crew {
    /// Starts the processes; each says that it is ready, and waits for [`start`](Self::start).
    pub(crate) fn hire(scenario: Scenario, terms: Terms, url: &str) -> anyhow::Result<Self> {
        let (sender, events) = mpsc::unbounded_channel();
        let workers = (0..usize::from(terms.processes))
            .map(|number| {
                let mut child = command(scenario, terms, url, number)?
                    .spawn()
                    .context("cannot start a worker")?;
                let input = child.stdin.take().context("a worker has no input")?;
                let output = child.stdout.take().context("a worker has no output")?;
                tokio::spawn(listen(number, output, sender.clone()));
                Ok((child, input))
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { workers, events })
    }

    /// Returns the next event and the worker's number. Each worker ends once, as its last event.
    pub(crate) async fn next(&mut self) -> anyhow::Result<(usize, Event)> {
        self.events.recv().await.context("all workers have ended")
    }

    /// Lets the workers begin.
    pub(crate) async fn start(&mut self) -> anyhow::Result<()> {
        for (_, input) in &mut self.workers {
            input
                .write_all(b"start\n")
                .await
                .context("cannot reach a worker")?;
        }
        Ok(())
    }

    /// Kills a worker with SIGKILL, without waiting for its end.
    pub(crate) fn kill(&mut self, number: usize) -> anyhow::Result<()> {
        let (worker, _) = &mut self.workers[number];
        worker.start_kill().context("cannot kill a worker")
    }

    /// Returns how a worker ended, once it has.
    pub(crate) async fn status(&mut self, number: usize) -> anyhow::Result<ExitStatus> {
        let (worker, _) = &mut self.workers[number];
        worker.wait().await.context("cannot wait for a worker")
    }
}

fn command(scenario: Scenario, terms: Terms, url: &str, number: usize) -> anyhow::Result<Command> {
    let program = env::current_exe().context("cannot find this program's file")?;
    let lease = humantime::format_duration(terms.lease);
    let mut command = Command::new(program);
    command
        .arg("worker")
        .args(["--scenario", scenario.name(), "--url", url])
        .args(["--seller", &number.to_string()])
        .args(["--processes", &terms.processes.to_string()])
        .args(["--stock", &terms.stock.to_string()])
        .args(["--lease", &lease.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        // Ctrl-C is for the parent, which ends the workers itself.
        .process_group(0);
    Ok(command)
}

async fn listen(number: usize, output: ChildStdout, events: mpsc::UnboundedSender<(usize, Event)>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        if let Some(line) = Line::parse(&text) {
            // Nobody listens any more if the run has failed.
            let _ = events.send((number, Event::Said(line)));
        }
    }
    let _ = events.send((number, Event::Ended));
}
