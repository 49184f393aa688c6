use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use lockyard_testkit::redis::{self, Connection, RedisResult, Value};
use lockyard_testkit::{Server, fresh_prefix};

use super::family::Family;

/// Long enough that nothing ends by itself while a test runs.
pub(crate) const LEASE: u64 = 600_000;
/// What a hold has that somebody else's script writes.
pub(crate) const GRANT: u64 = 300_000;
/// After what time a silent client counts as gone.
pub(crate) const WAITER: u64 = 400_000;
/// A server time that is still to come.
pub(crate) const NEVER: u64 = 9_000_000_000_000_000;

/// A lock or read-write lock without a client.
pub(crate) struct Bare {
    family: Family,
    connection: RefCell<Connection>,
    /// Lock, queue, alive, fence, and readers, which only one family has.
    pub(crate) keys: [String; 5],
    inbox: String,
}

/// A hold id and what its acquire asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) owner: String,
    pub(crate) client: String,
    pub(crate) seq: usize,
    pub(crate) fenced: bool,
    pub(crate) reads: bool,
}

/// The answer to an acquire; tokens as they stand in a value, `:<number>` or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    Held(String),
    Queued {
        ticket: u64,
        /// Right behind which of the client's ids that ask for the same.
        behind: Option<usize>,
        look: u64,
    },
    Busy,
    Stale,
    Unfenced,
    /// Its owner reads, and would wait for itself.
    Deadlock,
}

/// The answer for one id of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Gone,
    Held(String),
    Queued,
    Unfenced,
    Deadlock,
    Error(String),
}

/// What the commands of a batch answered, and whether more waiters can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch<T> {
    pub(crate) more: bool,
    pub(crate) each: Vec<T>,
}

/// Answers after which no more waiters can be served.
pub(crate) fn batch<T: Clone>(each: &[T]) -> Batch<T> {
    let each = each.to_vec();
    Batch { more: false, each }
}

pub(crate) fn id(owner: &str, client: &str, seq: usize) -> Id {
    let (owner, client) = (owner.to_owned(), client.to_owned());
    Id {
        owner,
        client,
        seq,
        fenced: false,
        reads: false,
    }
}

impl Id {
    pub(crate) fn fenced(mut self) -> Self {
        self.fenced = true;
        self
    }

    pub(crate) fn kind(&self) -> &'static str {
        match (self.reads, self.fenced) {
            (false, false) => "-",
            (false, true) => "f",
            (true, false) => "r",
            (true, true) => "s",
        }
    }

    pub(crate) fn hold(&self) -> String {
        format!("{}/{}.{}", self.owner, self.client, self.seq)
    }

    /// How it stands in the queue.
    pub(crate) fn entry(&self) -> String {
        format!("{}|{}|1|{LEASE}|{GRANT}", self.hold(), self.kind())
    }
}

impl Bare {
    /// Makes a lock that no other test has, on the connection of an URL.
    pub(crate) fn new(url: &str) -> Self {
        Self::of(Family::Lock, url)
    }

    pub(crate) fn of(family: Family, url: &str) -> Self {
        Self::make(family, url, &fresh_prefix(), "x")
    }

    pub(crate) fn named(url: &str, prefix: &str, name: &str) -> Self {
        Self::make(Family::Lock, url, prefix, name)
    }

    fn make(family: Family, url: &str, prefix: &str, name: &str) -> Self {
        let key = |part: &str| format!("{prefix}{}{part}:{{{name}}}", family.kind());
        Self {
            family,
            connection: RefCell::new(connect(url)),
            keys: family.parts().map(key),
            inbox: format!("{prefix}inbox:"),
        }
    }

    pub(crate) fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let (name, args) = words.split_first().unwrap();
        redis::cmd(name)
            .arg(args)
            .query(&mut *self.connection.borrow_mut())
    }

    fn run(&self, script: &str, locks: &[&Self], args: &[&str]) -> RedisResult<Value> {
        let keys: Vec<&str> = locks
            .iter()
            .flat_map(|lock| self.family.keys(lock.keys.each_ref().map(String::as_str)))
            .collect();
        let count = keys.len().to_string();
        self.command(&[&["EVAL", script, &count], &keys[..], args].concat())
    }

    /// Acquires: `try`, `wait`, `reenter` or `upgrade`.
    pub(crate) fn acquire(&self, id: &Id, mode: &str) -> Acquired {
        self.acquire_late(id, mode, NEVER, 0).unwrap()
    }

    /// Acquires until a server time, and with the ticket of an earlier place.
    pub(crate) fn acquire_late(
        &self,
        id: &Id,
        mode: &str,
        valid: u64,
        ticket: u64,
    ) -> RedisResult<Acquired> {
        let args = [
            valid.to_string(),
            format!("{WAITER}|{}", self.inbox),
            id.hold(),
            LEASE.to_string(),
            format!("{}{}|1|{LEASE}|{GRANT}|{ticket}", &mode[..1], id.kind()),
        ];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let reply = self.run(self.family.acquire(), &[self], &args)?;
        let parts = array(reply.clone());
        let Some([us, Value::Int(status), value, Value::Int(look)]) = parts.as_deref() else {
            assert!(micros(&reply), "no answer to an acquire: {reply:?}");
            return Ok(Acquired::Held(String::new()));
        };
        assert!(micros(us), "{reply:?}");
        Ok(match (status, value) {
            (1, Value::BulkString(token)) => Acquired::Held(text(token)),
            (2, Value::Int(ticket)) => Acquired::Queued {
                ticket: *ticket as u64,
                behind: None,
                look: *look as u64,
            },
            (2, Value::BulkString(place)) => {
                let place = text(place);
                let (ticket, behind) = place.split_once(':').unwrap();
                Acquired::Queued {
                    ticket: ticket.parse().unwrap(),
                    behind: Some(behind.parse().unwrap()),
                    look: *look as u64,
                }
            }
            (3, _) => Acquired::Busy,
            (4, _) => Acquired::Stale,
            (5, _) => Acquired::Unfenced,
            (6, _) => Acquired::Deadlock,
            (-1, Value::BulkString(error)) => return Err(refusal(&text(error))),
            _ => panic!("no answer to an acquire: {reply:?}"),
        })
    }

    /// Renews, or looks, with the count 1.
    pub(crate) fn renew(&self, ids: &[&Id]) -> Batch<Renewed> {
        let entries: Vec<_> = ids.iter().map(|id| (self, *id, LEASE, 1)).collect();
        self.renew_all(&entries)
    }

    /// Renews in several locks at once, each with a lease and a count.
    pub(crate) fn renew_all(&self, entries: &[(&Self, &Id, u64, u64)]) -> Batch<Renewed> {
        let locks: Vec<&Self> = entries.iter().map(|(lock, ..)| *lock).collect();
        let mut args = vec![self.inbox.clone(), WAITER.to_string()];
        for (_, id, lease, count) in entries {
            args.extend([id.entry(), lease.to_string(), count.to_string()]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let reply = array(self.run(self.family.renew(), &locks, &args).unwrap()).unwrap();
        let [us, Value::Int(more), each @ ..] = &reply[..] else {
            panic!("no answer to a renewal: {reply:?}");
        };
        assert!(micros(us) && each.len() == 2 * entries.len(), "{reply:?}");
        let each = each.chunks(2).map(|pair| match pair {
            [Value::Int(0), _] => Renewed::Gone,
            [Value::Int(1), Value::BulkString(token)] => Renewed::Held(text(token)),
            [Value::Int(2), Value::Int(0..)] => Renewed::Queued,
            [Value::Int(5), _] => Renewed::Unfenced,
            [Value::Int(6), _] => Renewed::Deadlock,
            [Value::Int(-1), Value::BulkString(error)] => Renewed::Error(text(error)),
            _ => panic!("no answer for one id: {pair:?}"),
        });
        Batch {
            more: *more == 1,
            each: each.collect(),
        }
    }

    /// Releases an id in the way that expects it to hold.
    pub(crate) fn release(&self, id: &Id) -> Batch<i64> {
        self.try_release(&[(self, &[&id.entry()])]).unwrap()
    }

    /// Releases any ids at once.
    pub(crate) fn release_many(&self, ids: &[&Id]) -> Batch<i64> {
        let entries: Vec<String> = ids.iter().map(|id| id.entry()).collect();
        let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
        self.try_release(&[(self, &entries)]).unwrap()
    }

    /// Releases holds by force.
    pub(crate) fn force(&self, holds: &[String]) -> Batch<i64> {
        let entries: Vec<String> = holds.iter().map(|hold| format!("!{hold}")).collect();
        let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
        self.try_release(&[(self, &entries)]).unwrap()
    }

    /// Releases in several locks; -1 for a lock whose keys cannot be used, an error if it is the only one.
    pub(crate) fn try_release(&self, entries: &[(&Self, &[&str])]) -> RedisResult<Batch<i64>> {
        let locks: Vec<&Self> = entries.iter().map(|(lock, _)| *lock).collect();
        let mut args = vec![self.inbox.clone()];
        for (_, entries) in entries {
            args.push(entries.len().to_string());
            args.extend(entries.iter().map(|entry| (*entry).to_owned()));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let reply = self.run(self.family.release(), &locks, &args)?;
        let count: usize = entries.iter().map(|(_, entries)| entries.len()).sum();
        let Some(parts) = array(reply.clone()) else {
            assert_eq!((reply, count), (Value::Int(1), 1));
            return Ok(Batch {
                more: false,
                each: vec![1],
            });
        };
        let mut each = Vec::new();
        for part in &parts[1..=count] {
            match part {
                Value::Int(number) => each.push(*number),
                Value::BulkString(error) if locks.len() == 1 => return Err(refusal(&text(error))),
                Value::BulkString(_) => each.push(-1),
                _ => panic!("no answer to a release: {parts:?}"),
            }
        }
        for news in &parts[count + 1..] {
            assert!(matches!(news, Value::BulkString(news) if news.starts_with(b"granted ")));
        }
        Ok(Batch {
            more: parts[0] == Value::Int(1),
            each,
        })
    }

    /// How many wait, and the entries that are listed of so many at most.
    pub(crate) fn inspect(&self, limit: usize) -> (i64, Vec<String>) {
        let limit = limit.to_string();
        let script = self.family.inspect();
        let words = ["EVAL", script, "2", &self.keys[0], &self.keys[1], &limit];
        let reply = array(self.command(&words).unwrap()).unwrap();
        let [us, Value::Int(waiting), Value::Int(fields), rest @ ..] = &reply[..] else {
            panic!("no answer to an inspection: {reply:?}");
        };
        assert!(micros(us), "{reply:?}");
        let listed = rest[*fields as usize..].chunks(2).map(|pair| match pair {
            [Value::BulkString(entry), Value::BulkString(_)] => text(entry),
            _ => panic!("no waiter: {pair:?}"),
        });
        (*waiting, listed.collect())
    }

    /// The hold ids and their values, `count:deadline:since[:token]`.
    pub(crate) fn holds(&self) -> BTreeMap<String, String> {
        self.command(&["HGETALL", &self.keys[0]]).unwrap()
    }

    /// Their ids alone.
    pub(crate) fn held(&self) -> Vec<String> {
        let holds = self.holds().into_keys();
        holds.chain(self.readers().into_keys()).collect()
    }

    /// The ids of readers and their deadlines.
    pub(crate) fn readers(&self) -> BTreeMap<String, u64> {
        let words = ["ZRANGE", &self.keys[4], "0", "-1", "WITHSCORES"];
        self.command(&words).unwrap()
    }

    /// The entries, in order.
    pub(crate) fn queue(&self) -> Vec<String> {
        self.command(&["ZRANGE", &self.keys[1], "0", "-1"]).unwrap()
    }

    /// All that the lock has on the server, for a comparison.
    pub(crate) fn dump(&self) -> Vec<Option<Vec<u8>>> {
        self.keys
            .iter()
            .map(|key| self.command(&["DUMP", key]).unwrap())
            .collect()
    }

    /// Ends a hold's lease, though its id stays in the hash.
    pub(crate) fn expire(&self, hold: &str) {
        let Some(value) = self.holds().remove(hold) else {
            let words = ["ZADD", &self.keys[4], "XX", "1", hold];
            return self.command::<()>(&words).unwrap();
        };
        let mut parts: Vec<&str> = value.split(':').collect();
        parts[1] = "1";
        self.set_value(hold, &parts.join(":"));
    }

    pub(crate) fn set_value(&self, hold: &str, value: &str) {
        self.command::<()>(&["HSET", &self.keys[0], hold, value])
            .unwrap();
    }

    /// Lets a waiting client count as gone.
    pub(crate) fn silence(&self, client: &str) {
        self.command::<()>(&["ZADD", &self.keys[2], "XX", "1", client])
            .unwrap();
    }

    /// Subscribes to a client's messages, so that it lives.
    pub(crate) fn inbox(&self, url: &str, client: &str) -> Inbox {
        Inbox::open(url, &format!("{}{client}", self.inbox))
    }
}

/// A client that hears what is published to it, and does nothing else.
pub(crate) struct Inbox {
    connection: Connection,
    pub(crate) channel: String,
}

impl Inbox {
    pub(crate) fn open(url: &str, channel: &str) -> Self {
        let mut inbox = Self {
            connection: connect(url),
            channel: channel.to_owned(),
        };
        inbox.say("SUBSCRIBE");
        inbox
    }

    /// Returns when nobody hears the messages any more.
    pub(crate) fn close(mut self) {
        self.say("UNSUBSCRIBE");
    }

    fn say(&mut self, word: &str) {
        let command = redis::cmd(word).arg(&self.channel).get_packed_command();
        self.connection.send_packed_command(&command).unwrap();
        let reply = array(self.connection.recv_response().unwrap()).unwrap();
        assert_eq!(reply[0], Value::BulkString(word.to_lowercase().into()));
    }

    /// Returns the next message.
    pub(crate) fn next(&mut self) -> String {
        let reply = array(self.connection.recv_response().unwrap());
        match reply.as_deref() {
            Some([_, _, Value::BulkString(message)]) => text(message),
            _ => panic!("no message: {reply:?}"),
        }
    }

    /// Returns all messages up to now.
    pub(crate) fn drain(&mut self, server: &Server) -> Vec<String> {
        server
            .command(&["PUBLISH", &self.channel, "that is all"])
            .unwrap();
        std::iter::repeat_with(|| self.next())
            .take_while(|message| message != "that is all")
            .collect()
    }
}

pub(crate) fn connect(url: &str) -> Connection {
    let connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    connection
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    connection
}

fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

/// The error that a script has put into its reply.
fn refusal(text: &str) -> redis::RedisError {
    let reply = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
    reply.extract_error().unwrap_err()
}

/// Whether a value is a time of the server's in µs.
fn micros(value: &Value) -> bool {
    matches!(value, Value::Int(1_600_000_000_000_000..))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
