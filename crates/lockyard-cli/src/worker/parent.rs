//! A worker's ties to the process that started it.
//!
//! The parent holds the other end of standard input. It writes one line there when the sale
//! begins, and the system closes it when the parent is gone, however that came: then the worker
//! ends too.

use std::io::{self, BufRead, Write};
use std::{process, thread};

use anyhow::Context;
use tokio::sync::oneshot;

use crate::line::Line;

/// The parent, seen from the worker.
#[derive(Debug)]
pub(crate) struct Parent {
    started: oneshot::Receiver<()>,
}

impl Parent {
    /// From now on this process ends with its parent.
    pub(crate) fn watch() -> Self {
        let (start, started) = oneshot::channel();
        // A thread, because a runtime waits at its end for a pending read of standard input.
        thread::spawn(move || {
            let mut start = Some(start);
            for _ in io::stdin().lock().lines().map_while(Result::ok) {
                if let Some(start) = start.take() {
                    // Nobody listens if the worker has failed already.
                    let _ = start.send(());
                }
            }
            process::exit(0);
        });
        Self { started }
    }

    /// Waits until the parent starts the sale.
    pub(crate) async fn start(&mut self) {
        // The thread ends only with the process, so the sender is not dropped unused.
        let _ = (&mut self.started).await;
    }
}

/// Tells the parent something.
pub(crate) fn say(line: Line) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", line.word())
        .and_then(|()| output.flush())
        .context("cannot reach the parent")
}
