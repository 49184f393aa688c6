//! The backend over fred: three connections, of which two live on the watchdog's thread.
//!
//! fred sends in-flight commands again after a reconnect, and dropping its future does not take a command back.
//! So each command has one attempt here, and whoever calls decides what may be sent again.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::error::Error as FredError;
use fred::interfaces::{ClientLike, LuaInterface, PubsubInterface};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, ServerConfig, TcpConfig,
    UnresponsiveConfig,
};
use fred::types::{Builder, ClusterHash, ConnectHandle, CustomCommand, Key, Value};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;

use crate::backend::{Arg, Backend, BoxFuture, Call, Event, Fault, Lane, Moment, Reply};
use crate::error::ServerError;
use crate::fred_inbox;
use crate::options::ClientOptions;

/// The connections of one client.
pub(crate) struct FredBackend {
    pub(crate) caller: Client,
    pub(crate) watchdog: Client,
    pub(crate) inbox: Client,
    /// The task behind `caller`, and the runtime of whoever connected.
    caller_task: OnceLock<(ConnectHandle, Handle)>,
    /// The runtime of the other two.
    background: OnceLock<Handle>,
    server: String,
    random: Mutex<fastrand::Rng>,
    /// When a new connection was last forced on each lane.
    reconnected: Mutex<[Option<Moment>; 2]>,
}

impl FredBackend {
    pub(crate) fn new(options: &ClientOptions) -> Result<Self, FredError> {
        let client = || client(&options.config, options.operation_timeout);
        Ok(Self {
            caller: client()?,
            watchdog: client()?,
            inbox: client()?,
            caller_task: OnceLock::new(),
            background: OnceLock::new(),
            server: address(&options.config),
            random: Mutex::new(fastrand::Rng::with_seed(
                uuid::Uuid::new_v4().as_u64_pair().0,
            )),
            reconnected: Mutex::default(),
        })
    }

    /// Connects the caller's lane, on the runtime that runs this.
    pub(crate) async fn connect_caller(&self) -> Result<(), FredError> {
        let mut connected = pin!(self.caller.wait_for_connect());
        // It listens from its first poll, which has to be before the task has news.
        let _ = poll_fn(|context| Poll::Ready(connected.as_mut().poll(context))).await;
        // Dropped from here on, `close` finds the task and ends it.
        let task = self.caller.connect();
        let _ = self.caller_task.set((task, Handle::current()));
        connected.await
    }

    /// Connects the other two, on the watchdog's runtime.
    pub(crate) async fn connect_background(&self, inbox: bool) -> Result<(), FredError> {
        let _ = self.background.set(Handle::current());
        self.watchdog.init().await?;
        if inbox {
            self.inbox.init().await?;
        }
        Ok(())
    }

    /// Reports each connection that takes the place of one of the first.
    pub(crate) fn report_reconnects(&self, events: &UnboundedSender<Event>) {
        if let Some(background) = self.background.get() {
            for client in [&self.caller, &self.watchdog] {
                fred_inbox::report_reconnects(client, events, background);
            }
        }
    }

    /// The runtime of the caller's connection, if it has not ended.
    fn callers(&self) -> Option<&Handle> {
        let (task, handle) = self.caller_task.get()?;
        (!task.is_finished()).then_some(handle)
    }

    /// The lane's connection; the watchdog's, once the runtime of the caller's has ended.
    fn client(&self, lane: Lane) -> &Client {
        match lane {
            Lane::Caller if self.callers().is_some() => &self.caller,
            _ => &self.watchdog,
        }
    }
}

fn client(config: &Config, timeout: Duration) -> Result<Client, FredError> {
    let connection = ConnectionConfig {
        connection_timeout: timeout,
        internal_command_timeout: timeout,
        max_command_attempts: 1,
        // A command does not wait for the answer to the one before.
        tcp: TcpConfig {
            nodelay: Some(true),
            ..TcpConfig::default()
        },
        // A peer that vanished without a word is noticed while a reply is owed.
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(timeout),
            interval: timeout / 4,
        },
        ..ConnectionConfig::default()
    };
    let performance = PerformanceConfig {
        broadcast_channel_capacity: 1024,
        ..PerformanceConfig::default()
    };
    let mut builder = Builder::from_config(Config {
        fail_fast: true,
        ..config.clone()
    });
    builder.set_connection_config(connection);
    builder.set_performance_config(performance);
    builder.set_policy(ReconnectPolicy::new_exponential(0, 10, 1000, 2));
    builder.build()
}

/// The server's address, without a password.
fn address(config: &Config) -> String {
    match &config.server {
        ServerConfig::Unix { path } => path.display().to_string(),
        server => server
            .hosts()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// What the server said, if the error is its reply: that begins with a code in capitals.
pub(crate) fn server_error(error: &FredError) -> Option<ServerError> {
    let code = error.details().split_whitespace().next()?;
    let is_code = code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    is_code.then(|| ServerError::new(error.details()))
}

impl Backend for FredBackend {
    fn now(&self) -> Moment {
        let time = clock_gettime(CLOCK);
        Moment::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    fn random(&self) -> u64 {
        self.random.lock().u64(..)
    }

    fn run<'a>(&'a self, lane: Lane, call: Call<'a>) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            let client = self.client(lane);
            let sha = call.script.sha().clone();
            match client.evalsha(sha, keys(call), args(call)).await {
                Ok(value) => Ok(reply(value)),
                Err(error) if error.details().starts_with("NOSCRIPT") => {
                    let text = call.script.text();
                    let value = client.eval(text, keys(call), args(call)).await;
                    value.map(reply).map_err(fault)
                }
                Err(error) => Err(fault(error)),
            }
        })
    }

    fn server_time(&self, lane: Lane) -> BoxFuture<'_, Result<u64, Fault>> {
        Box::pin(async move {
            let command = CustomCommand::new_static("TIME", ClusterHash::Random, false);
            let time: Vec<u64> = self
                .client(lane)
                .custom(command, Vec::<Value>::new())
                .await
                .map_err(fault)?;
            match time[..] {
                [seconds, micros] => Ok(seconds * 1_000_000 + micros),
                _ => Err(Fault::Refused(ServerError::new("unexpected reply to TIME"))),
            }
        })
    }

    fn is_connected(&self, lane: Lane) -> bool {
        self.client(lane).is_connected()
    }

    fn reconnect(&self, lane: Lane) {
        let now = self.now();
        let last = &mut self.reconnected.lock()[lane as usize];
        // Each forced connection fails the commands under way, which is not to make them force the next.
        if last.is_none_or(|last| now.since(last) > Duration::from_secs(1)) {
            *last = Some(now);
            let client = self.client(lane).clone();
            self.spawn(Box::pin(async move {
                // What became of it is seen by the next command.
                let _ = client.force_reconnection().await;
            }));
        }
    }

    fn subscribe(&self, channel: Bytes) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let channel = String::from_utf8_lossy(&channel).into_owned();
            fred_inbox::subscribe(&self.inbox, channel)
                .await
                .map_err(fault)
        })
    }

    fn unsubscribe(&self, channel: Bytes) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let channel = String::from_utf8_lossy(&channel).into_owned();
            self.inbox.unsubscribe(channel).await.map_err(fault)
        })
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        if let Some(handle) = self.callers().or_else(|| self.background.get()) {
            handle.spawn(work);
        }
    }

    fn server(&self) -> &str {
        &self.server
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for client in [&self.caller, &self.inbox, &self.watchdog] {
                // Best effort: the connections end with the process at the latest.
                let _ = tokio::time::timeout(Duration::from_secs(1), client.quit()).await;
            }
            // `quit` does nothing to a client that is still connecting.
            if let Some((task, _)) = self.caller_task.get() {
                task.abort();
            }
        })
    }
}

impl fmt::Debug for FredBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FredBackend")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// The clock that counts suspended time.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

fn keys(call: Call<'_>) -> Vec<Key> {
    call.keys.iter().cloned().map(Key::from).collect()
}

fn args(call: Call<'_>) -> Vec<Value> {
    let value = |arg: &Arg| match arg {
        Arg::Text(text) => Value::Bytes(text.clone()),
        Arg::Number(number) => {
            i64::try_from(*number).map_or_else(|_| number.to_string().into(), Value::Integer)
        }
    };
    call.args.iter().map(value).collect()
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Integer(number) => Reply::Number(number),
        Value::Bytes(bytes) => Reply::Text(bytes),
        Value::String(text) => Reply::Text(Bytes::from(text.to_string())),
        Value::Array(values) => Reply::Array(values.into_iter().map(reply).collect()),
        _ => Reply::Other,
    }
}

fn fault(error: FredError) -> Fault {
    match server_error(&error) {
        Some(error) => Fault::Refused(error),
        None => Fault::Unanswered(error),
    }
}
