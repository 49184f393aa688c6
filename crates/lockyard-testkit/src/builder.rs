//! What kind of server to start.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::address::{Address, bind_free_port};
use crate::admin::USER;
use crate::server::Server;
use crate::{Error, binary};

/// How often another port is tried when somebody was quicker to bind the chosen one.
const PORT_ATTEMPTS: u32 = 10;

/// Sets up a [`Server`]; made by [`Server::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "a server runs only after `start`"]
pub struct ServerBuilder {
    binary: Option<PathBuf>,
    unix_socket: bool,
    acl: Vec<String>,
    pub(crate) cluster: bool,
    config: Vec<(String, String)>,
    pub(crate) password: Option<String>,
    primary: Option<Address>,
}

impl ServerBuilder {
    /// Runs this server program, whatever `LOCKYARD_SERVER` and `PATH` say.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Listens on a unix socket in a temporary folder, and on no port.
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Adds a line of an ACL file, such as `user x on >pw ~lockyard:* &* +@all`.
    ///
    /// Passwords cannot contain spaces. A line for `default` replaces its rights.
    pub fn acl(mut self, line: impl Into<String>) -> Self {
        self.acl.push(line.into());
        self
    }

    /// Runs a cluster of one node that has all slots.
    ///
    /// It takes two seconds to start: a server refuses to serve slots earlier.
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// Adds a line to the configuration file, after and so above those of the test kit.
    pub fn config(mut self, directive: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.push((directive.into(), value.into()));
        self
    }

    /// Demands this password, without spaces, of the user `default`.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Makes the server a replica; [`start`](Self::start) waits until it is in step.
    ///
    /// The primary must listen on a port.
    pub fn replica_of(mut self, primary: &Server) -> Self {
        self.primary = Some(primary.address.clone());
        self
    }

    /// Starts the server, and returns when it answers.
    ///
    /// # Errors
    ///
    /// [`Error::NoServer`] if no server program is found, [`Error::Start`] if it does not start.
    pub fn start(self) -> Result<Server, Error> {
        let binary = self.binary.clone().map_or_else(binary::find, Ok)?;
        let mut attempts = 1;
        loop {
            let folder = tempfile::Builder::new()
                .prefix("lockyard-")
                .tempdir()
                .map_err(Error::io("cannot create a temporary folder"))?;
            let address = self.write_files(&folder)?;
            match Server::launch(&self, &binary, folder, address) {
                Err(Error::Start { log, .. })
                    if log.contains("in use") && attempts < PORT_ATTEMPTS =>
                {
                    attempts += 1;
                }
                result => return result,
            }
        }
    }

    /// Returns the last value given for a directive.
    pub(crate) fn configured(&self, directive: &str) -> Option<&str> {
        let mut given = self.config.iter().rev();
        given
            .find(|(name, _)| name.eq_ignore_ascii_case(directive))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_replica(&self) -> bool {
        self.primary.is_some()
    }

    /// Chooses an address and writes the configuration and the ACL file.
    fn write_files(&self, folder: &TempDir) -> Result<Address, Error> {
        let folder = folder.path();
        let mut lines = vec![
            "daemonize no".to_owned(),
            "save \"\"".to_owned(),
            "appendonly no".to_owned(),
            format!("dir {}", folder.display()),
            format!("aclfile {}", folder.join("users.acl").display()),
            // A diskless synchronisation waits for the next full second.
            "repl-diskless-sync no".to_owned(),
            "slowlog-log-slower-than 1000".to_owned(),
            "slowlog-max-len 1024".to_owned(),
        ];
        let address = self.listen(folder, &mut lines)?;
        if self.cluster {
            // By default the bus takes port + 10000, which may be somebody's.
            let (_, bus) = bind_free_port()?;
            lines.push("cluster-enabled yes".to_owned());
            lines.push(format!("cluster-port {bus}"));
            lines.push("cluster-announce-ip 127.0.0.1".to_owned());
        }
        if let Some(primary) = &self.primary {
            let Address::Tcp(port) = primary else {
                return Err(Error::NoPort);
            };
            lines.push(format!("replicaof 127.0.0.1 {port}"));
            lines.push(format!("masteruser {USER}"));
            lines.push(format!("masterauth {USER}"));
        }
        for (directive, value) in &self.config {
            lines.push(format!("{directive} {value}"));
        }
        write(&folder.join("server.conf"), &lines)?;
        write(&folder.join("users.acl"), &self.users())?;
        Ok(address)
    }

    /// Chooses an address and adds its lines.
    fn listen(&self, folder: &Path, lines: &mut Vec<String>) -> Result<Address, Error> {
        if self.unix_socket {
            let path = folder.join("socket");
            lines.push("port 0".to_owned());
            lines.push(format!("unixsocket {}", path.display()));
            return Ok(Address::Unix(path));
        }
        let (_, port) = bind_free_port()?;
        lines.push("bind 127.0.0.1".to_owned());
        lines.push(format!("port {port}"));
        Ok(Address::Tcp(port))
    }

    fn users(&self) -> Vec<String> {
        let mut lines = vec![format!("user {USER} on >{USER} ~* &* +@all")];
        if let Some(password) = &self.password {
            lines.push(format!("user default on >{password} ~* &* +@all"));
        }
        lines.extend(self.acl.iter().cloned());
        lines
    }
}

fn write(path: &Path, lines: &[String]) -> Result<(), Error> {
    let text = lines.join("\n") + "\n";
    fs::write(path, text).map_err(Error::io("cannot write the server's configuration"))
}
