//! What can be done to a server.

use std::thread;
use std::time::Duration;

use redis::{Connection, RedisResult};

use crate::admin::cmd;
use crate::{Error, Server};

/// After how many milliseconds a script makes a server say BUSY, unless configured.
const BUSY_THRESHOLD: &str = "5000";

impl Server {
    /// Kills the server (SIGKILL), and returns when it is gone.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Starts the server again, empty and on the same address, and kills it before if it runs.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if it does not come up, for instance because its port was taken.
    pub fn restart(&self) -> Result<(), Error> {
        self.relaunch()
    }

    /// Stops the server (SIGSTOP): connections stay, nothing is answered, its leases run on.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the server does not run.
    pub fn pause(&self) -> Result<(), Error> {
        self.process().pause()
    }

    /// Lets a paused server go on; it answers what has come meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the server does not run.
    pub fn resume(&self) -> Result<(), Error> {
        self.process().resume()
    }

    /// Makes the server refuse writes that need memory, with OOM.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn fill(&self) -> Result<(), Error> {
        self.set_memory("1", "noeviction")
    }

    /// Ends [`fill`](Self::fill): memory is limited as configured, or not at all.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn unfill(&self) -> Result<(), Error> {
        let memory = self.configured("maxmemory").unwrap_or("0");
        let policy = self.configured("maxmemory-policy").unwrap_or("noeviction");
        self.set_memory(memory, policy)
    }

    fn set_memory(&self, memory: &str, policy: &str) -> Result<(), Error> {
        self.query(&[
            "CONFIG",
            "SET",
            "maxmemory",
            memory,
            "maxmemory-policy",
            policy,
        ])
    }

    /// Forgets all cached scripts, so that EVALSHA is answered with NOSCRIPT.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn flush_scripts(&self) -> Result<(), Error> {
        self.query(&["SCRIPT", "FLUSH"])
    }

    /// Deletes all keys.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer.
    pub fn flush_all(&self) -> Result<(), Error> {
        self.query(&["FLUSHALL"])
    }

    /// Runs an endless script for so long, and returns when the server has begun to say BUSY.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the script cannot be started.
    pub fn busy(&self, duration: Duration) -> Result<(), Error> {
        let mut script = self.connect()?;
        let mut control = self.connect()?;
        set_busy_threshold(&mut control, "1")?;
        thread::spawn(move || {
            // Ends with an error when it is killed.
            let _: RedisResult<()> = cmd(&[b"EVAL", b"while true do end", b"0"]).query(&mut script);
        });
        while cmd(&[b"PING"]).exec(&mut control).is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
        let threshold = self.configured("busy-reply-threshold");
        let threshold = threshold.unwrap_or(BUSY_THRESHOLD).to_owned();
        thread::spawn(move || {
            thread::sleep(duration);
            // Fails if the server was killed meanwhile, which ends the script as well.
            let _ = cmd(&[b"SCRIPT", b"KILL"])
                .exec(&mut control)
                .and_then(|()| set_busy_threshold(&mut control, &threshold));
        });
        Ok(())
    }

    /// Closes all connections of a type: `normal`, `pubsub`, `replica` or `master`.
    ///
    /// Returns how many; the administrative connection is spared.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server knows no such type or does not answer.
    pub fn kill_clients(&self, kind: &str) -> Result<u64, Error> {
        self.query(&["CLIENT", "KILL", "TYPE", kind])
    }

    /// Makes the server a replica of nobody, so that it is read only and answers READONLY.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer, or is a cluster.
    pub fn make_replica(&self) -> Result<(), Error> {
        // Nobody listens on port 1, so the data stays.
        self.query(&["REPLICAOF", "127.0.0.1", "1"])
    }

    /// Makes the server a primary (again).
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the server does not answer, or is a cluster.
    pub fn make_primary(&self) -> Result<(), Error> {
        self.query(&["REPLICAOF", "NO", "ONE"])
    }
}

fn set_busy_threshold(connection: &mut Connection, milliseconds: &str) -> RedisResult<()> {
    let value = milliseconds.as_bytes();
    cmd(&[b"CONFIG", b"SET", b"busy-reply-threshold", value]).exec(connection)
}
