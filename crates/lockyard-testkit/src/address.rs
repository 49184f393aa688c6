//! Where a server listens, and how that is written as a URL.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use crate::Error;

/// Ports are taken from below the range from which Linux and macOS number outgoing connections.
/// A client that tries to reconnect to a killed server could otherwise be given the server's own
/// port, and talk to itself.
const PORTS: std::ops::Range<u64> = 10_000..32_000;

/// Where a server listens.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(u16),
    Unix(PathBuf),
}

impl Address {
    /// Writes the URL, in the form that fred and redis-rs both read, with credentials if given.
    pub(crate) fn url(&self, credentials: Option<(&str, &str)>) -> String {
        let credentials = credentials.map(|(user, password)| (escape(user), escape(password)));
        match (self, credentials) {
            (Self::Tcp(port), None) => format!("redis://127.0.0.1:{port}"),
            (Self::Tcp(port), Some((user, password))) => {
                format!("redis://{user}:{password}@127.0.0.1:{port}")
            }
            (Self::Unix(path), None) => format!("redis+unix://{}", path.display()),
            // A URL with credentials needs a host, which fred ignores here.
            (Self::Unix(path), Some((user, password))) => {
                format!("redis+unix://{user}:{password}@localhost{}", path.display())
            }
        }
    }
}

/// Percent-encodes what has a meaning in the credentials of a URL.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(byte.into());
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Binds a random free port; the listener may be dropped and the port given to a server.
pub(crate) fn bind_free_port() -> Result<(TcpListener, u16), Error> {
    let mut attempts = 0;
    loop {
        // The standard library's only source of randomness.
        let random = RandomState::new().build_hasher().finish();
        let port = PORTS.start + random % (PORTS.end - PORTS.start);
        let port = u16::try_from(port).expect("the range of ports ends below 65536");
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok((listener, port)),
            Err(_) if attempts < 100 => attempts += 1,
            Err(source) => return Err(Error::io("no free port found")(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn credentials_are_escaped() {
        let url = Address::Tcp(1).url(Some(("a", "p@s/:")));
        assert_eq!(url, "redis://a:p%40s%2F%3A@127.0.0.1:1");
    }
}
