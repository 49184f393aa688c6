//! A private server that ends with the test.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use parking_lot::{Mutex, MutexGuard};
use redis::{Connection, FromRedisValue, Value, from_redis_value};
use tempfile::TempDir;

use crate::Error;
use crate::address::Address;
use crate::admin::{self, Identity};
use crate::builder::ServerBuilder;
use crate::process::Process;

/// How long a server may take until it answers.
const START_DEADLINE: Duration = Duration::from_secs(15);

/// A `redis-server` or `valkey-server` of one's own.
///
/// It listens on a free port of 127.0.0.1 (or a unix socket), keeps nothing on disk, and ends
/// with this value: at once when it is dropped, also by a panic, and soon after the test's process
/// if that is killed. So it may also stand in a `static`, to be shared by many tests.
///
/// All methods take `&self` and block for a moment; they may be called from async tests too.
///
/// # Examples
///
/// ```no_run
/// use lockyard_testkit::Server;
///
/// let server = Server::start()?;
/// server.command(&["SET", "greeting", "hello"])?;
/// let greeting: String = server.query(&["GET", "greeting"])?;
/// assert_eq!(greeting, "hello");
/// # Ok::<(), lockyard_testkit::Error>(())
/// ```
pub struct Server {
    builder: ServerBuilder,
    binary: PathBuf,
    pub(crate) address: Address,
    identity: Identity,
    admin: Mutex<Option<Connection>>,
    // Declared before its folder, so that it is dead when the folder goes.
    process: Mutex<Process>,
    folder: TempDir,
}

impl Server {
    /// Starts a plain server.
    ///
    /// # Errors
    ///
    /// Those of [`ServerBuilder::start`].
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Sets up a server that is not plain.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lockyard_testkit::Server;
    ///
    /// let server = Server::builder()
    ///     .acl("user clerk on >secret ~orders:* resetchannels +@read")
    ///     .config("maxmemory", "2mb")
    ///     .start()?;
    /// let url = server.url_for("clerk", "secret");
    /// # Ok::<(), lockyard_testkit::Error>(())
    /// ```
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Starts the server whose files stand in `folder`.
    pub(crate) fn launch(
        builder: &ServerBuilder,
        binary: &Path,
        folder: TempDir,
        address: Address,
    ) -> Result<Self, Error> {
        let mut process = Process::spawn(binary, folder.path())?;
        let (connection, identity) = wait_ready(&mut process, &address)?;
        let server = Self {
            builder: builder.clone(),
            binary: binary.to_owned(),
            address,
            identity,
            admin: Mutex::new(Some(connection)),
            process: Mutex::new(process),
            folder,
        };
        server.wait_in_service()?;
        Ok(server)
    }

    /// Returns the URL for clients, with the password of [`ServerBuilder::password`].
    ///
    /// It is `redis://127.0.0.1:<port>` or `redis+unix://<path>`.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.password();
        self.address
            .url(password.map(|password| ("default", password)))
    }

    /// Returns the URL for a user of the ACL.
    #[must_use]
    pub fn url_for(&self, user: &str, password: &str) -> String {
        self.address.url(Some((user, password)))
    }

    /// Returns the port; `None` if the server listens on a unix socket.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self.address {
            Address::Tcp(port) => Some(port),
            Address::Unix(_) => None,
        }
    }

    /// Returns the process id of the server, or the last one if it was killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Returns the version, such as `7.0.15`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.identity.version
    }

    /// Tells Valkey from Redis.
    #[must_use]
    pub fn is_valkey(&self) -> bool {
        self.identity.is_valkey
    }

    /// Sends a command over the administrative connection, which may do everything.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server answers with an error, or not within five seconds.
    pub fn command<A: AsRef<[u8]>>(&self, words: &[A]) -> Result<Value, Error> {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        self.send(&words)
    }

    /// Like [`command`](Self::command), with the reply as a type of one's choice.
    ///
    /// # Errors
    ///
    /// As `command`, and [`Error::Redis`] if the reply is of another type.
    pub fn query<T: FromRedisValue>(&self, words: &[impl AsRef<[u8]>]) -> Result<T, Error> {
        let value = self.command(words)?;
        from_redis_value(value).map_err(|error| Error::Redis(error.into()))
    }

    fn send(&self, words: &[&[u8]]) -> Result<Value, Error> {
        let mut admin = self.admin.lock();
        let mut connection = match admin.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let result = admin::cmd(words).query(&mut connection);
        let unusable =
            matches!(&result, Err(error) if error.is_unrecoverable_error() || error.is_timeout());
        if !unusable {
            *admin = Some(connection);
        }
        Ok(result?)
    }

    /// Opens another administrative connection.
    pub(crate) fn connect(&self) -> Result<Connection, Error> {
        Ok(admin::connect(&self.address)?)
    }

    pub(crate) fn configured(&self, directive: &str) -> Option<&str> {
        self.builder.configured(directive)
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.builder.password.as_deref()
    }

    pub(crate) fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock()
    }

    /// Kills the process and starts another with the same files and address.
    pub(crate) fn relaunch(&self) -> Result<(), Error> {
        let mut process = self.process();
        process.kill();
        // A node that remembers its cluster waits for its neighbours before it serves.
        let _ = fs::remove_file(self.folder.path().join("nodes.conf"));
        *process = Process::spawn(&self.binary, self.folder.path())?;
        let (connection, _) = wait_ready(&mut process, &self.address)?;
        drop(process);
        *self.admin.lock() = Some(connection);
        self.wait_in_service()
    }

    /// Waits for what takes longer than the first answer: slots, and a primary's data.
    fn wait_in_service(&self) -> Result<(), Error> {
        if self.builder.cluster {
            self.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
            self.wait_for_line(&["CLUSTER", "INFO"], "cluster_state:ok")?;
        }
        if self.builder.is_replica() {
            self.wait_for_line(&["INFO", "replication"], "master_link_status:up")?;
        }
        Ok(())
    }

    fn wait_for_line(&self, words: &[&str], line: &str) -> Result<(), Error> {
        let deadline = Instant::now() + START_DEADLINE;
        while Instant::now() < deadline {
            let reply: String = self.query(words)?;
            if reply.lines().any(|found| found == line) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(Error::Start {
            reason: format!("no `{line}` in time"),
            log: self.process().log_tail(),
        })
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Waits until this very process answers; another could sit on the port and answer for it.
fn wait_ready(process: &mut Process, address: &Address) -> Result<(Connection, Identity), Error> {
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        let reason = if let Some(status) = process.exited() {
            format!("it ended with {status}")
        } else if Instant::now() > deadline {
            format!("no answer within {START_DEADLINE:?}")
        } else {
            let answer = admin::connect(address).and_then(|mut connection| {
                let identity = admin::identify(&mut connection)?;
                Ok((connection, identity))
            });
            match answer {
                Ok((connection, identity)) if identity.pid == process.id() => {
                    return Ok((connection, identity));
                }
                _ => thread::sleep(Duration::from_millis(1)),
            }
            continue;
        };
        return Err(Error::Start {
            reason,
            log: process.log_tail(),
        });
    }
}
