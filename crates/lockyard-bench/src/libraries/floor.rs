//! The floor: the least that could do the job over the client that Lockyard uses.
//!
//! A lock is one string key. Acquiring is `SET NX PX` in a script, releasing is a script that deletes
//! the key if it is still ours. There are no owners, no queue, no renewal and no deadlines.
//! Where somebody waits, the releasing script also publishes, and the waiter tries again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fred::bytes_utils::Str;
use fred::clients::Client;
use fred::interfaces::{ClientLike, EventInterface, LuaInterface, PubsubInterface};
use fred::types::config::{Config, ReconnectPolicy};
use fred::types::{Builder, Key, Value};

use super::{Library, Lock};
use crate::Result;

const LEASE_MS: i64 = 30_000;
const CHANNEL: &str = "floor:released";

/// `KEYS[1]` lock, `ARGV[1]` token, `ARGV[2]` lease in ms.
const ACQUIRE: &str = r#"
if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
  return 1
end
return 0
"#;

/// `KEYS[1]` lock, `ARGV[1]` token.
const RELEASE: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
"#;

/// The same, and tells whoever waits; `ARGV[2]` channel.
const RELEASE_AND_TELL: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
  redis.call("DEL", KEYS[1])
  redis.call("PUBLISH", ARGV[2], "")
  return 1
end
return 0
"#;

/// One command connection.
#[derive(Clone)]
pub(crate) struct Floor {
    client: Client,
    acquire: Str,
    release: Str,
    tells: bool,
    holds: Arc<AtomicU64>,
}

/// A floor whose acquires wait for a message; one more connection, subscribed before anybody waits.
#[derive(Clone)]
pub(crate) struct WaitingFloor {
    floor: Floor,
    subscriber: Client,
}

impl Floor {
    /// Connects a client whose releases tell nobody.
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        Self::with_release(address, RELEASE, false).await
    }

    /// Connects a client whose releases tell whoever waits.
    pub(crate) async fn connect_telling(address: &str) -> Result<Self> {
        Self::with_release(address, RELEASE_AND_TELL, true).await
    }

    async fn with_release(address: &str, release: &str, tells: bool) -> Result<Self> {
        let client = connect(address).await?;
        Ok(Self {
            acquire: client.script_load(ACQUIRE).await?,
            release: client.script_load(release).await?,
            tells,
            holds: Arc::default(),
            client,
        })
    }

    /// Returns the new hold's token, or `None` if the lock is held.
    async fn try_acquire(&self, key: &Key) -> Result<Option<i64>> {
        let token = self.holds.fetch_add(1, Ordering::Relaxed) as i64;
        let arguments = [Value::from(token), Value::from(LEASE_MS)];
        let acquired: bool = self
            .client
            .evalsha(self.acquire.clone(), key.clone(), arguments.to_vec())
            .await?;
        Ok(acquired.then_some(token))
    }

    async fn release(&self, key: &Key, token: i64) -> Result<()> {
        let mut arguments = vec![Value::from(token)];
        if self.tells {
            arguments.push(Value::from_static_str(CHANNEL));
        }
        let released: bool = self
            .client
            .evalsha(self.release.clone(), key.clone(), arguments)
            .await?;
        match released {
            true => Ok(()),
            false => Err("a hold of the floor was gone".into()),
        }
    }
}

impl WaitingFloor {
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let subscriber = connect(address).await?;
        subscriber.subscribe(CHANNEL).await?;
        Ok(Self {
            floor: Floor::connect(address).await?,
            subscriber,
        })
    }
}

impl Library for Floor {
    type Lock = FloorLock<Self>;

    fn lock(&self, key: &str) -> Self::Lock {
        FloorLock::new(self, key)
    }
}

impl Library for WaitingFloor {
    type Lock = FloorLock<Self>;

    fn lock(&self, key: &str) -> Self::Lock {
        FloorLock::new(self, key)
    }
}

/// One key's lock, over a client that waits or not.
#[derive(Clone)]
pub(crate) struct FloorLock<C> {
    client: C,
    key: Key,
}

impl<C: Clone> FloorLock<C> {
    fn new(client: &C, key: &str) -> Self {
        Self {
            client: client.clone(),
            key: Key::from(key),
        }
    }
}

impl Lock for FloorLock<Floor> {
    type Guard = i64;

    async fn acquire(&self) -> Result<i64> {
        match self.client.try_acquire(&self.key).await? {
            Some(token) => Ok(token),
            None => Err("the floor met a held lock where it cannot wait".into()),
        }
    }

    async fn release(&self, token: i64) -> Result<()> {
        self.client.release(&self.key, token).await
    }
}

impl Lock for FloorLock<WaitingFloor> {
    type Guard = i64;

    async fn acquire(&self) -> Result<i64> {
        let WaitingFloor { floor, subscriber } = &self.client;
        // Before the first try, or a release right after it would go unheard.
        let mut messages = subscriber.message_rx();
        loop {
            if let Some(token) = floor.try_acquire(&self.key).await? {
                return Ok(token);
            }
            messages.recv().await?;
        }
    }

    async fn release(&self, token: i64) -> Result<()> {
        self.client.floor.release(&self.key, token).await
    }
}

/// Connects with the settings of Lockyard's backend, so that the two differ only in what they send.
async fn connect(address: &str) -> Result<Client> {
    let mut config = Config::from_url(&format!("redis://{address}"))?;
    config.fail_fast = true;
    let client = Builder::from_config(config)
        .with_connection_config(|connection| connection.max_command_attempts = 1)
        .set_policy(ReconnectPolicy::new_exponential(0, 10, 1_000, 2))
        .build()?;
    client.init().await?;
    Ok(client)
}
