//! Looks at the locks on the server, all along and as often as is cheap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockyard_testkit::Server;

use super::kind::{is_semaphore, is_shared};
use super::recorder::now;
use crate::history::{Holder, Sample};

const PAUSE: Duration = Duration::from_millis(2);

/// For each lock, of five keys: its living holds and their values, its keys without a TTL, its queue, and whether the sum
/// of its permits is wrong.
///
/// Holds are the fields of a hash that comes first, and the members of a sorted set that comes last; if the first is a
/// string, it is the sum of those.
const SCRIPT: &str = r#"#!lua flags=no-writes
local time = redis.call("TIME")
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = {}
for k = 1, #KEYS, 5 do
  local living, forever = {}, {}
  local hashed = redis.call("TYPE", KEYS[k]).ok == "hash"
  local holds = hashed and redis.call("HGETALL", KEYS[k]) or {}
  for i = 1, #holds, 2 do
    local deadline = tonumber(string.match(holds[i + 1], "^%d+:(%d+):"))
    if deadline > ms then
      living[#living + 1] = holds[i]
      living[#living + 1] = holds[i + 1]
    end
  end
  local members = redis.call("ZRANGE", KEYS[k + 4], "(" .. ms, "+inf", "BYSCORE")
  for _, member in ipairs(members) do
    local hold, permits = string.match(member, "^(.*)|(%d+)$")
    living[#living + 1] = hold or member
    living[#living + 1] = permits and "p" .. permits or "r"
  end
  local sum = 0
  for _, member in ipairs(redis.call("ZRANGE", KEYS[k + 4], 0, -1)) do
    sum = sum + (string.match(member, "|(%d+)$") or 0)
  end
  local said = not hashed and sum > 0 and tonumber(redis.call("GET", KEYS[k]) or nil) or sum
  for i = k, k + 4 do
    if redis.call("PTTL", KEYS[i]) == -1 then forever[#forever + 1] = KEYS[i] end
  end
  reply[#reply + 1] = {living, forever, redis.call("ZRANGE", KEYS[k + 1], 0, -1), said - sum}
end
return reply
"#;

/// A thread that takes samples until it is asked for them.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Sampler {
    pub(crate) fn start(server: Arc<Server>, prefix: String, locks: Vec<String>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            while !stopped.load(SeqCst) {
                take(&server, &prefix, &locks, &mut samples);
                thread::sleep(PAUSE);
            }
            samples
        });
        Self { stop, thread }
    }

    pub(crate) fn finish(self) -> Vec<Sample> {
        self.stop.store(true, SeqCst);
        self.thread.join().unwrap()
    }
}

/// Looks once; a server that is down shows nothing.
fn take(server: &Server, prefix: &str, locks: &[String], samples: &mut Vec<Sample>) {
    let keys = locks.iter().flat_map(|lock| {
        let (kind, more) = match () {
            () if is_shared(lock) => ("rw", [".fence", ".readers"]),
            () if is_semaphore(lock) => ("semaphore", [".limit", ".permits"]),
            () => ("lock", [".fence", ".readers"]),
        };
        let parts = ["", ".queue", ".alive"].into_iter().chain(more);
        parts.map(move |part| format!("{prefix}{kind}{part}:{{{lock}}}"))
    });
    let mut words = vec![
        "EVAL".to_owned(),
        SCRIPT.to_owned(),
        (5 * locks.len()).to_string(),
    ];
    words.extend(keys);
    let from = now();
    let reply = server.query::<Vec<(Vec<String>, Vec<String>, Vec<String>, i64)>>(&words);
    let until = now();
    let seen = locks.iter().zip(reply.unwrap_or_default());
    samples.extend(seen.map(|(lock, (holds, forever, queue, miscounted))| {
        Sample {
            from,
            until,
            lock: lock.clone(),
            holders: holds
                .chunks(2)
                .map(|pair| Holder::parse(&pair[0], &pair[1]).unwrap())
                .collect(),
            forever,
            miscounted,
            queue: queue
                .iter()
                .map(|entry| entry.split('|').next().unwrap_or_default().to_owned())
                .collect(),
        }
    }));
}
