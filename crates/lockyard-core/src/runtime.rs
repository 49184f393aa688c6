//! The runtime of a client: connections, watchdog, and all that handles and guards share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use fred::error::{Error as FredError, ErrorKind};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::acquire::GRACE;
use crate::backend::{Arg, Backend, Event, Fault, Lane, Reply};
use crate::connect::connect;
use crate::core::{Core, inbox_prefix};
use crate::error::{Error, ServerError};
use crate::id::Spec;
use crate::metrics;
use crate::name;
use crate::options::ClientOptions;
use crate::owner::Owner;
use crate::releases;
use crate::reply::{self, Answer};
use crate::retry::Retry;
use crate::script::{Family, Script};
use crate::watchdog;

/// What one client's handles and guards share; it ends with the last of them.
pub struct Runtime {
    core: Arc<Core>,
}

impl Runtime {
    /// Connects to a server, within the operation timeout.
    ///
    /// # Errors
    ///
    /// Bad options, or why the server cannot be used.
    pub async fn connect(options: ClientOptions) -> Result<Arc<Self>, Error> {
        connect(options.checked()?).await
    }

    /// Makes a runtime over a backend; the future that comes with it is its watchdog, for the caller to run.
    pub fn start(
        backend: Arc<dyn Backend>,
        events: UnboundedReceiver<Event>,
        options: ClientOptions,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), Error> {
        metrics::describe();
        let core = Arc::new(Core::new(backend, options.checked()?));
        Ok((
            Arc::new(Self { core: core.clone() }),
            watchdog::run(core, events),
        ))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// How this client connects, waits and leases.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.core.options
    }

    /// The channel on which this client hears of its waiters and holds.
    #[must_use]
    pub fn inbox(&self) -> String {
        format!("{}{}", inbox_prefix(&self.core.prefix), self.core.client)
    }

    /// A new owner.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner::new(self.core.uuid, self.core.number())
    }

    /// Builds the handle's part of a primitive: its scripts and keys.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`].
    pub fn spec(&self, family: &'static Family, name: &str) -> Result<Arc<Spec>, Error> {
        let keys = name::keys(&self.core.prefix, family.kind, family.parts, name)?;
        Ok(Arc::new(Spec {
            family,
            name: name.to_owned(),
            keys,
            label: None,
        }))
    }

    /// Runs a script that may be sent again, until it is answered or the operation timeout is over.
    ///
    /// # Errors
    ///
    /// Why there is no reply.
    pub async fn ask(
        &self,
        name: &str,
        script: &Script,
        keys: &[Bytes],
        args: &[Arg],
    ) -> Result<Reply, Error> {
        let core = &self.core;
        let until = core.now().after(core.valid());
        let mut retry = Retry::new(core, until);
        loop {
            self.open()?;
            // The last try has time for its answer, or "unreachable" would hide what the server said before.
            let timeout = until.since(core.now()).max(GRACE);
            match core.call(Lane::Caller, script, keys, args, timeout).await {
                Ok((reply, _)) => return Ok(reply),
                Err(fault) => retry
                    .after(fault)
                    .await
                    .map_err(|fault| core.error(name, fault))?,
            }
        }
    }

    /// # Errors
    ///
    /// [`Error::Closed`] after a shutdown.
    pub(crate) fn open(&self) -> Result<(), Error> {
        match self.core.with(|state| state.closed) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// Releases the holds that there are, whoever has them; whether there were any.
    ///
    /// They are named one by one, so that a command that comes twice or late frees no newer hold.
    ///
    /// # Errors
    ///
    /// Why there is no reply; then it is unknown whether anything was released.
    pub async fn force_release(&self, spec: &Spec) -> Result<bool, Error> {
        let unexpected = || Error::UnexpectedReply {
            name: spec.name.clone(),
        };
        let seen = self.ask(
            &spec.name,
            &spec.family.inspect,
            &spec.keys,
            &[Arg::Number(0)],
        );
        let holds = reply::holds(&seen.await?).ok_or_else(unexpected)?;
        if holds.is_empty() {
            return Ok(false);
        }
        for holds in holds.chunks(releases::BATCH) {
            let mut args = vec![Arg::Text(self.core.inbox.clone())];
            args.push(Arg::Number(holds.len() as u64));
            let forced = |hold: &Bytes| Arg::Text([b"!", &hold[..]].concat().into());
            args.extend(holds.iter().map(forced));
            self.release_all(spec, &args, holds.len()).await?;
        }
        tracing::info!(lock = spec.name, outcome = "released", "released by force");
        Ok(true)
    }

    /// Lets in the waiters that can be served now; if that cannot be done, they find out by their own looks.
    pub async fn serve(&self, spec: &Spec) {
        let args = [Arg::Text(self.core.inbox.clone()), Arg::Number(0)];
        if let Err(error) = self.release_all(spec, &args, 0).await {
            tracing::warn!(lock = spec.name, %error, "waiters have to look for what lets them in");
        }
    }

    /// Sends a release until no more waiters can be served.
    async fn release_all(&self, spec: &Spec, args: &[Arg], entries: usize) -> Result<(), Error> {
        loop {
            let reply = self.ask(&spec.name, &spec.family.release, &spec.keys, args);
            let released =
                reply::released(&reply.await?, entries).ok_or_else(|| Error::UnexpectedReply {
                    name: spec.name.clone(),
                })?;
            for answer in released.answers {
                if let Answer::Error(text) = answer {
                    let fault = Fault::Refused(ServerError::new(text));
                    return Err(self.core.error(&spec.name, fault));
                }
            }
            if !released.more {
                return Ok(());
            }
        }
    }

    /// What this client counts for a hold, if it has it: the server learns of nested guards a little later.
    #[must_use]
    pub fn local_count(&self, hold: &str) -> Option<u64> {
        let seq = crate::id::seq_of(hold.as_bytes(), &self.core.client)?;
        self.core.with(|state| match &state.get(seq)?.phase {
            crate::id::Phase::Held(held) => Some(held.shares.len() as u64),
            _ => None,
        })
    }

    /// Releases every hold, ends every wait and closes the connections.
    ///
    /// # Errors
    ///
    /// [`Error::OutcomeUnknown`] if a release was not answered within the operation timeout.
    pub async fn shutdown(&self) -> Result<(), Error> {
        let core = &self.core;
        let now = core.now();
        let until = now.after(core.valid());
        core.with(|state| state.close(now));
        core.openings.close();
        self.end();
        loop {
            let finished = core.finished.notified();
            if core.with(|state| state.is_empty()) && core.books.is_idle() {
                return Ok(());
            }
            if core.now() >= until {
                let source = FredError::new(
                    ErrorKind::Timeout,
                    "releases or count-downs are still under way",
                );
                return Err(core.unknown("all holds", Fault::Unanswered(source)));
            }
            tokio::select! {
                biased;
                () = finished => {}
                () = core.sleep_until(until) => {}
            }
        }
    }

    fn end(&self) {
        self.core.closing.store(true, SeqCst);
        self.core.wake.notify_one();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("client", &self.core.client)
            .finish_non_exhaustive()
    }
}
