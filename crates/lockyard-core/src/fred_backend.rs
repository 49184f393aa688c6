//! The backend over fred: three connections, of which two live on the watchdog's thread.
//!
//! fred sends in-flight commands again after a reconnect, and dropping its future does not take a command back.
//! So each command has one attempt here, and whoever calls decides what may be sent again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::config::{Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, ServerConfig};
use fred::types::{Builder, ClusterHash, CustomCommand, Key, Value};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{mpsc, oneshot};

use crate::backend::{Arg, Backend, BoxFuture, Call, Fault, Lane, Moment, Reply};
use crate::core::inbox_prefix;
use crate::error::{Error, ServerError};
use crate::fred_inbox;
use crate::options::{ClientOptions, Waiting};
use crate::runtime::Runtime;

/// Connects, and starts the watchdog's thread.
pub(crate) async fn connect(options: ClientOptions) -> Result<Arc<Runtime>, Error> {
    let timeout = options.operation_timeout;
    let server = address(&options.config);
    let error = |source: FredError| refusal(&server, source);
    let in_time = |result: Result<Result<(), FredError>, tokio::time::error::Elapsed>| {
        result.unwrap_or_else(|_| Err(FredError::new(ErrorKind::Timeout, "no connection in time"))).map_err(error)
    };
    let make = || client(&options.config, timeout).map_err(error);
    let (caller, watchdog, inbox) = (make()?, make()?, make()?);
    let (events, received) = mpsc::unbounded_channel();
    let random = Mutex::new(fastrand::Rng::with_seed(uuid::Uuid::new_v4().as_u64_pair().0));
    let backend =
        FredBackend { caller: caller.clone(), watchdog: watchdog.clone(), inbox: inbox.clone(), server: server.clone(), random };
    let spins = options.waiting == Waiting::Spin;
    let prefix = inbox_prefix(&options.prefix);
    let look = options.waiter_timeout / 3;
    let (runtime, run) = Runtime::start(Arc::new(backend), received, options)?;
    let channel = format!("{prefix}{}", runtime.core().client);

    in_time(tokio::time::timeout(timeout, start(&caller)).await)?;
    let (ready, connected) = oneshot::channel();
    let thread = std::thread::Builder::new().name("lockyard-watchdog".to_owned());
    let spawned = thread.spawn(move || {
        let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        tokio.block_on(async move {
            let result = async {
                start(&watchdog).await?;
                if !spins {
                    start(&inbox).await?;
                }
                Ok(())
            };
            let failed = result.await.map(|()| fred_inbox::reconnects(&[&caller, &watchdog], &events)).err();
            let ok = failed.is_none();
            if ready.send(failed).is_err() || !ok {
                return;
            }
            if !spins {
                tokio::spawn(fred_inbox::listen(inbox, channel, events, look, timeout));
            }
            run.await;
        });
    });
    spawned.map_err(|_| error(FredError::new(ErrorKind::Unknown, "no thread could be started")))?;
    let connected = async {
        match connected.await {
            Ok(None) => Ok(()),
            Ok(Some(source)) => Err(source),
            Err(_) => Err(FredError::new(ErrorKind::Unknown, "the watchdog has no runtime")),
        }
    };
    in_time(tokio::time::timeout(timeout, connected).await)?;
    // The first to wait may queue at once; without a subscription in time it spins for a while.
    let confirmed = async {
        while !spins && !runtime.core().with(|state| state.inbox) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = tokio::time::timeout(timeout.min(Duration::from_millis(250)), confirmed).await;
    Ok(runtime)
}

fn client(config: &Config, timeout: Duration) -> Result<Client, FredError> {
    let connection = ConnectionConfig {
        connection_timeout: timeout,
        internal_command_timeout: timeout,
        max_command_attempts: 1,
        ..ConnectionConfig::default()
    };
    let performance = PerformanceConfig { broadcast_channel_capacity: 1024, ..PerformanceConfig::default() };
    let mut builder = Builder::from_config(Config { fail_fast: true, ..config.clone() });
    builder.set_connection_config(connection);
    builder.set_performance_config(performance);
    builder.set_policy(ReconnectPolicy::new_exponential(0, 10, 1000, 2));
    builder.build()
}

async fn start(client: &Client) -> Result<(), FredError> {
    client.init().await.map(drop)
}

/// The server's address, without a password.
fn address(config: &Config) -> String {
    match &config.server {
        ServerConfig::Unix { path } => path.display().to_string(),
        server => server.hosts().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Why a connection could not be made.
fn refusal(server: &str, source: FredError) -> Error {
    let server = server.to_owned();
    match server_error(&source) {
        Some(source) => Error::Refused { server, source },
        None => Error::Unreachable { server, source },
    }
}

/// What the server said, if the error is its reply: that begins with a code in capitals.
fn server_error(error: &FredError) -> Option<ServerError> {
    let code = error.details().split_whitespace().next()?;
    let is_code = code.len() > 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    is_code.then(|| ServerError::new(error.details()))
}

struct FredBackend {
    caller: Client,
    watchdog: Client,
    inbox: Client,
    server: String,
    random: Mutex<fastrand::Rng>,
}

impl FredBackend {
    fn client(&self, lane: Lane) -> &Client {
        match lane {
            Lane::Caller => &self.caller,
            Lane::Watchdog => &self.watchdog,
        }
    }
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
            let keys: Vec<Key> = call.keys.into_iter().map(Key::from).collect();
            let args: Vec<Value> = call.args.into_iter().map(value).collect();
            // Clones of both cost some reference counts, and let NOSCRIPT be answered at once.
            match client.evalsha::<Value, _, _, _>(call.script.sha(), keys.clone(), args.clone()).await {
                Ok(value) => Ok(reply(value)),
                Err(error) if error.details().starts_with("NOSCRIPT") => {
                    let text = call.script.text();
                    client.eval::<Value, _, _, _>(text, keys, args).await.map(reply).map_err(fault)
                }
                Err(error) => Err(fault(error)),
            }
        })
    }

    fn server_time(&self, lane: Lane) -> BoxFuture<'_, Result<u64, Fault>> {
        Box::pin(async move {
            let command = CustomCommand::new_static("TIME", ClusterHash::Random, false);
            let time: Vec<u64> = self.client(lane).custom(command, Vec::<Value>::new()).await.map_err(fault)?;
            match time[..] {
                [seconds, micros] => Ok(seconds * 1_000_000 + micros),
                _ => Err(Fault::Refused(ServerError::new("unexpected reply to TIME"))),
            }
        })
    }

    fn reconnect(&self, lane: Lane) {
        let client = self.client(lane).clone();
        tokio::spawn(async move { client.force_reconnection().await });
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
        })
    }
}

impl fmt::Debug for FredBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FredBackend").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The clock that counts suspended time.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

fn value(arg: Arg) -> Value {
    match arg {
        Arg::Text(text) => Value::Bytes(text),
        Arg::Number(number) => i64::try_from(number).map_or_else(|_| number.to_string().into(), Value::Integer),
    }
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
