//! Looks at the locks on the server, all along and as often as is cheap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockyard_testkit::Server;

use super::recorder::now;
use crate::history::{Holder, Sample};

const PAUSE: Duration = Duration::from_millis(2);

/// For each lock, of four keys: its living holds and their values, and its keys without a TTL.
const SCRIPT: &str = r#"#!lua flags=no-writes
local time = redis.call("TIME")
local ms = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = {}
for k = 1, #KEYS, 4 do
  local living, forever = {}, {}
  local holds = redis.call("HGETALL", KEYS[k])
  for i = 1, #holds, 2 do
    local deadline = tonumber(string.match(holds[i + 1], "^%d+:(%d+):"))
    if deadline > ms then
      living[#living + 1] = holds[i]
      living[#living + 1] = holds[i + 1]
    end
  end
  for i = k, k + 3 do
    if redis.call("PTTL", KEYS[i]) == -1 then forever[#forever + 1] = KEYS[i] end
  end
  reply[#reply + 1] = {living, forever}
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
    let key = |kind: &str, lock: &String| format!("{prefix}{kind}:{{{lock}}}");
    let kinds = ["lock", "lock.queue", "lock.alive", "lock.fence"];
    let keys = locks
        .iter()
        .flat_map(|lock| kinds.map(|kind| key(kind, lock)));
    let mut words = vec![
        "EVAL".to_owned(),
        SCRIPT.to_owned(),
        (4 * locks.len()).to_string(),
    ];
    words.extend(keys);
    let from = now();
    let reply = server.query::<Vec<(Vec<String>, Vec<String>)>>(&words);
    let until = now();
    let seen = locks.iter().zip(reply.unwrap_or_default());
    samples.extend(seen.map(|(lock, (holds, forever))| {
        Sample {
            from,
            until,
            lock: lock.clone(),
            holders: holds
                .chunks(2)
                .map(|pair| Holder::parse(&pair[0], &pair[1]).unwrap())
                .collect(),
            forever,
        }
    }));
}
