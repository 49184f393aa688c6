//! Making a client: its connections, and the watchdog's thread.

use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fred::error::{Error as FredError, ErrorKind};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::backend::{Backend, Lane};
use crate::error::Error;
use crate::fred_backend::{FredBackend, server_error};
use crate::fred_inbox::Inbox;
use crate::options::{ClientOptions, Waiting};
use crate::runtime::Runtime;

/// How long a new client waits for its inbox, so that the first to wait may queue at once.
const INBOX: Duration = Duration::from_millis(250);

/// Connects within the operation timeout; dropped on the way, what was connected is closed.
pub(crate) async fn connect(options: ClientOptions) -> Result<Arc<Runtime>, Error> {
    let patience = options.operation_timeout;
    let backend = FredBackend::new(&options).map_err(|source| Error::InvalidUrl { source })?;
    let backend = Arc::new(backend);
    let error = |source| refusal(backend.server(), source);
    let spins = options.waiting == Waiting::Spin;
    let heartbeat = options.waiter_timeout / 3;
    let (events, received) = mpsc::unbounded_channel();
    let (runtime, watchdog) = Runtime::start(backend.clone(), received, options)?;
    let inbox = Inbox {
        client: backend.inbox.clone(),
        channel: runtime.inbox(),
        events: events.clone(),
        heartbeat,
        patience,
    };

    let (ready, connected) = oneshot::channel();
    let theirs = backend.clone();
    let background = async move {
        let result = theirs.connect_background(!spins).await;
        let failed = result.is_err();
        // Whoever asked is gone, or is told why there will be no client.
        if ready.send(result).is_err() || failed {
            return theirs.close().await;
        }
        if !spins {
            tokio::spawn(inbox.listen());
        }
        watchdog.await;
    };
    spawn(background).map_err(|_| {
        error(FredError::new(
            ErrorKind::Unknown,
            "no thread could be started",
        ))
    })?;

    let both = async {
        let gone = |_| FredError::new(ErrorKind::Unknown, "the watchdog has no runtime");
        let mut connected = pin!(connected);
        let mut caller = pin!(backend.connect_caller());
        // When the background fails it closes the caller's connection as well, so its news comes first.
        tokio::select! {
            biased;
            result = &mut connected => {
                result.map_err(gone)??;
                caller.await
            }
            result = &mut caller => {
                result?;
                connected.await.map_err(gone)?
            }
        }
    };
    let until = runtime.core().now().after(patience);
    let result = timeout(patience, both).await;
    result
        .unwrap_or_else(|_| Err(FredError::new(ErrorKind::Timeout, "no connection in time")))
        .map_err(error)?;
    // The first connection, which takes nobody's place, has been reported already.
    backend.report_reconnects(&events);
    let core = runtime.core();
    core.sync(Lane::Caller, until.since(core.now()))
        .await
        .map_err(|fault| core.error("", fault))?;
    let confirmed = async {
        while !spins && !core.with(|state| state.inbox) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = timeout(patience.min(INBOX), confirmed).await;
    Ok(runtime)
}

/// Runs a future on a thread and a runtime of its own.
fn spawn(future: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let run = move || match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => tracing::error!(%error, "the watchdog could not start"),
    };
    thread::Builder::new()
        .name("lockyard-watchdog".to_owned())
        .spawn(run)
        .map(drop)
}

/// Why a connection could not be made.
fn refusal(server: &str, source: FredError) -> Error {
    let server = server.to_owned();
    match server_error(&source) {
        Some(source) => Error::Refused { server, source },
        None => Error::Unreachable { server, source },
    }
}
