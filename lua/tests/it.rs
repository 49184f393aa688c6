//! Every script on a real server: it loads, and keeps to its slot whichever way it goes.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are tests, which clippy cannot see"
)]

use std::fs;
use std::path::{Path, PathBuf};

use lockyard_lua::latch::{COUNT, DOWN, SET};
use lockyard_lua::lock::{ACQUIRE, INSPECT, RELEASE, RENEW};
use lockyard_lua::rate::TAKE;
use lockyard_testkit::redis::Value;
use lockyard_testkit::{Server, fresh_prefix};

#[test]
fn a_server_loads_every_script() {
    let server = Server::start().unwrap();
    let mut loaded = 0;
    for family in contents(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        for script in contents(&family) {
            let text = fs::read_to_string(&script).unwrap_or_default();
            if text.starts_with("#!lua") {
                let reply = server.command(&["SCRIPT", "LOAD", &text]);
                assert!(reply.is_ok(), "{}: {reply:?}", script.display());
                loaded += 1;
            }
        }
    }
    assert!(loaded >= 4);
}

/// What is in a folder; nothing in a file.
fn contents(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// A lock on a cluster of one node, where a script that strays to a key of another slot is refused.
struct Lock {
    server: Server,
    keys: [String; 4],
    inbox: String,
}

const LATE: &str = "9000000000000000";

impl Lock {
    fn run(&self, script: &str, keys: &[String], args: &[&str]) -> Vec<Value> {
        let count = keys.len().to_string();
        let mut words = vec!["EVAL", script, &count];
        words.extend(keys.iter().map(String::as_str));
        words.extend(args);
        match self.server.command(&words).unwrap() {
            Value::Array(parts) => parts,
            value => vec![value],
        }
    }

    fn acquire(&self, hold: &str, mode: &str, kind: &str) -> Vec<Value> {
        let terms = format!("10000|{}", self.inbox);
        let wish = format!("{}{kind}|1|60000|10000|0", &mode[..1]);
        let args = [LATE, &terms, hold, "60000", &wish];
        self.run(ACQUIRE, &self.keys, &args)
    }

    fn renew(&self, hold: &str, kind: &str) -> Vec<Value> {
        let entry = format!("{hold}|{kind}|1|60000|10000");
        let args = [&self.inbox, "10000", &entry, "60000", "1"];
        self.run(RENEW, &self.keys, &args)
    }

    fn release(&self, entry: &str) -> Vec<Value> {
        self.run(RELEASE, &self.keys, &[&self.inbox, "1", entry])
    }
}

fn number(reply: &[Value], at: usize) -> i64 {
    let Some(Value::Int(number)) = reply.get(at) else {
        panic!("no number at {at}: {reply:?}");
    };
    *number
}

// Red with a key of another slot, `call("EXISTS", "elsewhere")`, in any script: a plain server would not mind.
#[test]
fn a_cluster_runs_every_script() {
    let server = Server::builder().cluster().start().unwrap();
    let prefix = fresh_prefix();
    let key = |part: &str| format!("{prefix}lock{part}:{{x}}");
    let keys = [key(""), key(".queue"), key(".alive"), key(".fence")];
    let lock = Lock {
        server,
        keys,
        inbox: format!("{prefix}inbox:"),
    };

    // Free, held, fenced, queued, looked for and granted: whichever way the scripts can go.
    assert!(number(&lock.acquire("a/c.1", "try", "-"), 0) > 1_000_000);
    assert_eq!(number(&lock.renew("a/c.1", "-"), 2), 1);
    assert_eq!(number(&lock.acquire("b/c.2", "try", "-"), 1), 3);
    assert_eq!(number(&lock.acquire("a/c.3", "reenter", "f"), 1), 5);
    assert_eq!(number(&lock.acquire("b/c.4", "wait", "f"), 1), 2);
    assert_eq!(number(&lock.acquire("d/c.5", "wait", "-"), 1), 2);
    assert_eq!(number(&lock.renew("b/c.4", "f"), 2), 2);
    let inspect = lock.run(INSPECT, &lock.keys[..2], &["10"]);
    assert_eq!((number(&inspect, 1), number(&inspect, 2)), (2, 2));

    let latch = [
        format!("{prefix}latch:{{x}}"),
        format!("{prefix}latch.ops:{{x}}"),
    ];
    let set = lock.run(SET, &latch, &[LATE, "3", "i", "60000"]);
    assert_eq!(number(&set, 1), 1);
    for (to, left) in [("1", 2), ("1", 2), ("3", 0), ("3", -1)] {
        let down = lock.run(DOWN, &latch, &["i", "c", "0", to, "open"]);
        assert_eq!(number(&down, 0), left);
        let count = lock.run(COUNT, &latch, &["c"]);
        assert_eq!(number(&count, 0), left.max(0));
    }
    lock.server.command(&["DEL", &latch[0]]).unwrap();
    let rate = [format!("{prefix}rate:{{x}}")];
    for (wait, taken) in [("0", true), ("0", false), ("600000000", true)] {
        let take = lock.run(TAKE, &rate, &[LATE, "60000000", "1", "1", wait]);
        assert_eq!(number(&take, 1) > 0, taken);
    }
    lock.server.command(&["DEL", &rate[0]]).unwrap();

    // Nobody listens to the inbox of `c`, so its waiters are dead.
    assert_eq!(
        lock.release("a/c.1|-|1|60000|10000"),
        [Value::Int(0), Value::Int(1)]
    );
    assert_eq!(number(&lock.acquire("e/c.6", "wait", "f"), 1), 1);
    assert_eq!(number(&lock.renew("b/c.4", "f"), 2), 0);
    assert_eq!(number(&lock.acquire("d/c.7", "wait", "-"), 1), 2);
    assert_eq!(lock.release("!e/c.6"), [Value::Int(0), Value::Int(1)]);
    assert_eq!(lock.server.keys("*").unwrap(), [lock.keys[3].as_str()]);
}
