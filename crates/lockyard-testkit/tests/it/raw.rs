use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use lockyard_testkit::Proxy;

/// A client that sees the bytes, where a library would sort them.
pub(crate) struct Raw(TcpStream);

impl Raw {
    /// Connects, and lets the first command pass.
    pub(crate) fn connect(proxy: &Proxy, protocol: u8) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut raw = Self(stream);
        raw.send(&format!("HELLO {protocol}"));
        raw.send("ECHO ready");
        raw.read_until("ready");
        raw
    }

    pub(crate) fn send(&mut self, command: &str) {
        write!(self.0, "{command}\r\n").unwrap();
    }

    /// Reads a line, which is a whole reply if that is not a string or an array.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        while !line.ends_with("\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0].into());
        }
        line.trim_end().to_owned()
    }

    /// Reads until a line says this, in any case, and returns all lines in lower case.
    pub(crate) fn read_until(&mut self, last: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line| line != last) {
            lines.push(self.line().to_lowercase());
        }
        lines
    }

    /// Tells whether nothing comes for a while, though the connection is open.
    pub(crate) fn is_silent(&mut self) -> bool {
        let patience = self.0.read_timeout().unwrap();
        self.0
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let result = self.0.read(&mut [0]);
        self.0.set_read_timeout(patience).unwrap();
        result
            .is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Tells whether the connection ends with nothing more.
    pub(crate) fn is_cut(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// Closes the sending half.
    pub(crate) fn finish(&mut self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }
}
