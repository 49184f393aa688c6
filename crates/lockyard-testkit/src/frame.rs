//! Cuts a stream of RESP (2 or 3) into whole frames, and looks into them.

use std::io;

use bytes::{Bytes, BytesMut};
use redis::{Value, parse_redis_value};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a frame from the server is.
#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    /// It answers a command.
    Reply,
    /// It answers this command of the SUBSCRIBE family.
    Confirmation(Vec<u8>),
    /// It was published.
    Message,
    /// It came unasked, but was not published, such as `invalidate`.
    Push,
}

/// The frames of one direction of a connection.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    reader: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: BytesMut::new(),
        }
    }

    /// Returns the next whole frame, `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(length) = length(&self.buffer) {
                return Ok(Some(self.buffer.split_to(length).freeze()));
            }
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Returns the length of the first frame, `None` if it is not whole.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let mut end = line + 2;
    let count: i64 = str::from_utf8(&bytes[1.min(line)..line])
        .ok()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0);
    // Null arrays and strings have the length -1.
    let count = usize::try_from(count).ok();
    let children = match bytes[0] {
        b'$' | b'!' | b'=' => {
            end += count.map_or(0, |count| count + 2);
            0
        }
        b'*' | b'~' | b'>' => count.unwrap_or(0),
        b'%' => count.unwrap_or(0) * 2,
        // An attribute precedes the value that it describes, and is cut off with it.
        b'|' => count.unwrap_or(0) * 2 + 1,
        _ => 0,
    };
    for _ in 0..children {
        end += length(bytes.get(end..)?)?;
    }
    (end <= bytes.len()).then_some(end)
}

/// Returns the words of a command; an inline command (`PING` and a line end) has them too.
pub(crate) fn words(frame: &[u8]) -> Vec<Vec<u8>> {
    let Ok(Value::Array(values)) = parse_redis_value(frame) else {
        let words = frame.split(u8::is_ascii_whitespace);
        let words = words.filter(|word| !word.is_empty());
        return words.map(<[u8]>::to_vec).collect();
    };
    let words = values.into_iter().filter_map(|value| match value {
        Value::BulkString(word) => Some(word),
        _ => None,
    });
    words.collect()
}

/// Tells what a frame is, on a connection that has subscribed or not.
///
/// RESP3 marks what comes unasked. In RESP2 it is an array like any other, but a connection that
/// subscribes has no commands that would be answered by such an array.
pub(crate) fn kind(frame: &[u8], subscriber: bool) -> Kind {
    let is_push = frame[0] == b'>';
    let may_be_push = is_push || subscriber && frame[0] == b'*';
    if !may_be_push {
        return Kind::Reply;
    }
    let first = frame.split(|byte| *byte == b'\n').nth(2);
    let first = first.unwrap_or_default().trim_ascii().to_ascii_lowercase();
    match &*first {
        b"message" | b"pmessage" | b"smessage" => Kind::Message,
        name if is_subscription(name) => Kind::Confirmation(first),
        _ if is_push => Kind::Push,
        _ => Kind::Reply,
    }
}

/// Tells whether a command, in lower case, is answered by confirmations.
pub(crate) fn is_subscription(name: &[u8]) -> bool {
    let name = match name {
        [b'p' | b's', rest @ ..] if rest.ends_with(b"subscribe") => rest,
        _ => name,
    };
    name == b"subscribe" || name == b"unsubscribe"
}

#[cfg(test)]
mod tests {
    use super::{Kind, is_subscription, kind, length, words};

    #[test]
    fn frames_are_whole_or_not() {
        let frames: [&[u8]; 12] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":1\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"_\r\n",
            b"$4\r\na\r\nb\r\n",
            b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            b"%1\r\n+a\r\n~1\r\n#t\r\n",
            b"|1\r\n+ttl\r\n:1\r\n$1\r\na\r\n",
            b">2\r\n+a\r\n,1.5\r\n",
            b"PING\r\n",
        ];
        for frame in frames {
            for cut in 0..frame.len() {
                assert_eq!(length(&frame[..cut]), None, "{frame:?} {cut}");
            }
            assert_eq!(length(frame), Some(frame.len()), "{frame:?}");
            let more = [frame, b"+OK\r\n"].concat();
            assert_eq!(length(&more), Some(frame.len()));
        }
    }

    #[test]
    fn commands_have_words() {
        assert_eq!(
            words(b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n"),
            [&b"GET"[..], b"\r\n"]
        );
        assert_eq!(words(b"GET  a\r\n"), [b"GET".to_vec(), b"a".to_vec()]);
    }

    #[test]
    fn kinds_are_told_apart() {
        let message = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
        assert_eq!(kind(message, true), Kind::Message);
        assert_eq!(kind(message, false), Kind::Reply);
        let confirmation = b">3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n";
        assert_eq!(
            kind(confirmation, false),
            Kind::Confirmation(b"ssubscribe".to_vec())
        );
        assert_eq!(kind(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", true), Kind::Reply);
        assert_eq!(kind(b">2\r\n$10\r\ninvalidate\r\n_\r\n", false), Kind::Push);
        assert!(is_subscription(b"subscribe") && is_subscription(b"punsubscribe"));
        assert!(!is_subscription(b"publish"));
    }
}
