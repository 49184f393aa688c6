//! The line between clients and a server, with faults.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::address::{Address, bind_free_port};
use crate::connection::{self, Shared};
use crate::{Error, Server};

/// A proxy between clients and a [`Server`], which understands what passes.
///
/// It runs in a thread of its own, so it goes on when the test's runtime is blocked. It starts
/// out as a plain line; the methods disturb all its connections, rules ([`once`](Self::once),
/// [`times`](Self::times), [`always`](Self::always)) single commands. When a server was killed
/// and restarted, the proxy leads to the new one. Dropping the proxy cuts everything.
///
/// MONITOR and CLIENT REPLY break the order of replies, and may not be used through it.
///
/// # Examples
///
/// A client whose SET was carried out, but who does not learn of it:
///
/// ```no_run
/// use std::time::Duration;
/// use lockyard_testkit::{Action, Proxy, Server, command, redis};
///
/// let server = Server::start()?;
/// let proxy = Proxy::start(&server)?;
/// let rule = proxy.once(command("SET"), Action::CutBeforeReply);
///
/// let mut client = redis::Client::open(proxy.url())?.get_connection()?;
/// assert!(redis::cmd("SET").arg("k").arg("v").exec(&mut client).is_err());
/// rule.wait_fired(1, Duration::from_secs(2));
/// assert_eq!(server.keys("*")?, ["k"]);
/// # Ok::<(), lockyard_testkit::Error>(())
/// ```
pub struct Proxy {
    pub(crate) port: u16,
    pub(crate) server: SocketAddr,
    password: Option<String>,
    pub(crate) shared: Shared,
    /// Accepts connections; `None` while they are refused.
    pub(crate) acceptor: Mutex<Option<JoinHandle<()>>>,
    pub(crate) connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
    /// `None` only while the proxy is dropped.
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Starts a proxy in front of a server.
    ///
    /// # Errors
    ///
    /// [`Error::NoPort`] if the server listens on a unix socket, [`Error::Io`] if the system
    /// gives no port or no thread.
    pub fn start(server: &Server) -> Result<Self, Error> {
        let port = server.port().ok_or(Error::NoPort)?;
        // One worker, so that a task which runs later finds what earlier ones did.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("lockyard-proxy")
            .enable_all()
            .build()
            .map_err(Error::io("cannot start the proxy's thread"))?;
        let (listener, own_port) = bind_free_port()?;
        let proxy = Self {
            port: own_port,
            server: (Ipv4Addr::LOCALHOST, port).into(),
            password: server.password().map(str::to_owned),
            shared: Shared::default(),
            acceptor: Mutex::new(None),
            connections: Arc::default(),
            runtime: Some(runtime),
        };
        proxy.listen(listener)?;
        Ok(proxy)
    }

    /// Returns the URL that leads through the proxy, else like that of the server.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.password.as_deref();
        Address::Tcp(self.port).url(password.map(|password| ("default", password)))
    }

    /// Returns the URL that leads through the proxy for a user of the ACL.
    #[must_use]
    pub fn url_for(&self, user: &str, password: &str) -> String {
        Address::Tcp(self.port).url(Some((user, password)))
    }

    /// Returns the port on which the proxy listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns how many commands have come from clients.
    #[must_use]
    pub fn commands_seen(&self) -> u64 {
        self.shared.traffic.commands.load(Relaxed)
    }

    /// Returns how many published messages have come from the server.
    #[must_use]
    pub fn messages_seen(&self) -> u64 {
        self.shared.traffic.messages.load(Relaxed)
    }

    /// Returns how many messages were dropped.
    #[must_use]
    pub fn messages_dropped(&self) -> u64 {
        self.shared.traffic.dropped.load(Relaxed)
    }

    /// Returns how many connections there are now.
    #[must_use]
    pub fn connections(&self) -> usize {
        let connections = self.connections.lock();
        let open = connections.iter().filter(|open| !open.is_finished());
        open.count()
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        let runtime = self.runtime.as_ref();
        runtime.expect("the runtime is there until the proxy is dropped")
    }

    /// Runs a future on the proxy's own thread, so that this may be called from any.
    pub(crate) fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.runtime().spawn(async move {
            future.await;
            sender.send(())
        });
        receiver
            .recv()
            .expect("the task above sends, and does not panic");
    }

    pub(crate) fn listen(&self, listener: TcpListener) -> Result<(), Error> {
        let _context = self.runtime().enter();
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener))
            .map_err(Error::io("cannot listen for connections"))?;
        let (server, shared) = (self.server, self.shared.clone());
        let connections = self.connections.clone();
        let acceptor = tokio::spawn(async move {
            loop {
                // A connection that broke off before it was accepted is the client's affair.
                let Ok((client, _)) = listener.accept().await else {
                    continue;
                };
                let connection = tokio::spawn(connect(client, server, shared.clone()));
                let mut connections = connections.lock();
                connections.retain(|open| !open.is_finished());
                connections.push(connection);
            }
        });
        *self.acceptor.lock() = Some(acceptor);
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.cut();
        if let Some(runtime) = self.runtime.take() {
            // A runtime that waits for its end may not be dropped in async code.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("port", &self.port)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Leads a client to the server; if that is gone, the client is hung up on.
async fn connect(client: TcpStream, server: SocketAddr, shared: Shared) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    // Small frames must not wait for each other. Fails only on a connection that is broken.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    connection::serve(client, server, shared).await;
}

/// Ends a task, and returns when all that it had is dropped.
pub(crate) async fn end(task: JoinHandle<()>) {
    task.abort();
    // An error says that it was aborted.
    let _ = task.await;
}
