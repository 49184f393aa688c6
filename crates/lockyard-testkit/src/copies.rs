//! Commands that are sent once more, later.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use parking_lot::Mutex;
use redis::{Value, parse_redis_value};

use crate::admin::PATIENCE;
use crate::{Error, frame};

/// A command, and what its connection had sent to become who it is.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) prelude: Vec<Bytes>,
    pub(crate) frame: Bytes,
}

/// The copies that a proxy keeps.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    kept: Mutex<Vec<Copied>>,
}

impl Copies {
    pub(crate) fn keep(&self, copied: Copied) {
        self.kept.lock().push(copied);
    }

    /// Sends each copy over a connection of its own, and forgets it.
    pub(crate) fn resend(&self, server: SocketAddr) -> Result<Vec<Value>, Error> {
        let kept = std::mem::take(&mut *self.kept.lock());
        let replies = kept.iter().map(|copied| {
            let reply = copied.send(server);
            let reply = reply.map_err(Error::io("cannot send a command again"))?;
            Ok(parse_redis_value(&reply)?)
        });
        replies.collect()
    }
}

impl Copied {
    /// Returns the reply to the command itself.
    fn send(&self, server: SocketAddr) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&self.prelude.concat())?;
        stream.write_all(&self.frame)?;
        let mut received = Vec::new();
        let mut before = self.prelude.len();
        loop {
            while let Some(length) = frame::length(&received) {
                let rest = received.split_off(length);
                let frame = std::mem::replace(&mut received, rest);
                match frame[0] {
                    b'>' => {}
                    _ if before > 0 => before -= 1,
                    _ => return Ok(frame),
                }
            }
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => received.extend_from_slice(&chunk[..n]),
            }
        }
    }
}
