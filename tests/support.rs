//! What the tests of several subjects share.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use lockyard::{Client, ClientOptions, Error, Owner};
use lockyard_core::__private::changed_script;
use lockyard_lua::{latch, lock, rate, rw, semaphore};
use lockyard_testkit::{Server, eventually_async, redis};
use tokio::task::JoinHandle;

use crate::contract::exclusive::Single;

/// A generous upper bound for what takes milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// After what silence a waiter of [`client`] counts as gone; it looks every third of it.
pub(crate) const WAITER_TIMEOUT: Duration = Duration::from_millis(1500);

/// What a lost message may cost: a third of [`WAITER_TIMEOUT`], and what a busy machine needs.
pub(crate) const A_LOOK: Duration = Duration::from_millis(500 + 700);

/// A client that waits for short times, as tests do.
pub(crate) async fn client(url: &str) -> Client {
    Client::with_options(options(url)).await.unwrap()
}

pub(crate) fn options(url: &str) -> ClientOptions {
    ClientOptions::from_url(url)
        .unwrap()
        .waiter_timeout(WAITER_TIMEOUT)
}

/// A client whose waiters look so seldom that only messages can let them in soon.
pub(crate) async fn patient(url: &str) -> Client {
    Client::with_options(options(url).waiter_timeout(ms(600_000)))
        .await
        .unwrap()
}

/// Connects with options other than the defaults.
pub(crate) async fn connect(
    url: &str,
    change: impl FnOnce(ClientOptions) -> ClientOptions,
) -> Result<Client, Error> {
    Client::with_options(change(ClientOptions::from_url(url)?)).await
}

/// Connects however often it takes: a busy machine may exceed a short operation timeout.
pub(crate) async fn connect_in_the_end(options: ClientOptions) -> Client {
    let mut tries = 0..20;
    loop {
        match Client::with_options(options.clone()).await {
            Err(error) if tries.next().is_none() => panic!("{error:?}"),
            Err(_) => {}
            Ok(client) => return client,
        }
    }
}

/// The name of an error's variant, for tables of cases.
pub(crate) fn variant(error: &Error) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(char::is_ascii_alphabetic).collect()
}

/// An error's message, and those of its sources.
pub(crate) fn chain(error: &Error) -> Vec<String> {
    let mut texts = Vec::new();
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The output of a future that is to be ready soon.
#[track_caller]
pub(crate) fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move {
        let output = tokio::time::timeout(SOON, future).await;
        output.unwrap_or_else(|_| panic!("{place}: not within {SOON:?}"))
    }
}

/// Polls a future once, which is not to end by that.
pub(crate) async fn begin<F: Future>(mut future: Pin<&mut F>) {
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        assert!(polled.is_pending(), "the future did not wait");
        Poll::Ready(())
    })
    .await;
}

/// Polls a future so many times at most, each time when it is woken, and drops it; its output if it came so far.
pub(crate) async fn drop_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Does something else while a future is polled whenever it is woken, and which is not to end meanwhile.
pub(crate) async fn while_waiting<F: Future, T>(
    mut future: Pin<&mut F>,
    other: impl Future<Output = T>,
) -> T {
    tokio::select! {
        biased;
        _ = future.as_mut() => panic!("the future did not wait"),
        output = other => output,
    }
}

/// Sees to it that nothing is left on the server.
#[track_caller]
pub(crate) fn no_keys(server: &Server) {
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

/// Waits until so many wait for a lock.
pub(crate) async fn until_waiting(lock: &impl Single, waiters: u64) {
    eventually_async(SOON, async || {
        lock.inspect().await.unwrap().waiting == waiters
    })
    .await;
}

/// Has a task wait for a lock.
pub(crate) fn wait<M: Single>(lock: &M) -> JoinHandle<M::Guard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}

/// An owner as another process knows it: from its text.
pub(crate) fn travelled(owner: &Owner) -> Owner {
    owner.to_string().parse().unwrap()
}

/// Sees to it that no script took more than 25 ms.
///
/// The server's log shows the time that passed. On a busy machine a server waits for the processor in the middle of a
/// script, so as much as it waited in all is forgiven.
pub(crate) fn assert_quick_scripts(server: &Server) {
    let entries: Vec<Vec<redis::Value>> = server.query(&["SLOWLOG", "GET", "-1"]).unwrap();
    let micros = |entry: &Vec<redis::Value>| match entry[2] {
        redis::Value::Int(micros) => Duration::from_micros(micros.unsigned_abs()),
        _ => unreachable!("the third part of an entry is how long it took"),
    };
    let slow: Vec<Duration> = entries
        .iter()
        .map(micros)
        .filter(|took| *took > ms(25))
        .collect();
    let excess: Duration = slow.iter().map(|took| *took - ms(25)).sum();
    // The second number is the time in the queue of the processor, in ns; where there is none, nothing is forgiven.
    let scheduling = std::fs::read_to_string(format!("/proc/{}/schedstat", server.pid()));
    let scheduling = scheduling.unwrap_or_default();
    let waited = scheduling
        .split(' ')
        .nth(1)
        .and_then(|waited| waited.parse().ok());
    let waited = Duration::from_nanos(waited.unwrap_or_default());
    assert!(
        excess <= waited,
        "scripts took {slow:?}, but the server waited only {waited:?}"
    );
}

/// Has a server know the scripts, so that each call is one command from the first on.
pub(crate) fn cache_scripts(server: &Server) {
    for script in Script::ALL.into_iter().flat_map(Script::texts) {
        server.command(&["SCRIPT", "LOAD", script]).unwrap();
    }
}

/// Which of the scripts a command runs, for the rules of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Acquire,
    Renew,
    Release,
    Inspect,
    Take,
    Set,
    Count,
    Down,
    Limit,
}

impl Script {
    const ALL: [Self; 9] = [
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::Inspect,
        Self::Take,
        Self::Set,
        Self::Count,
        Self::Down,
        Self::Limit,
    ];

    /// One for each family.
    fn texts(self) -> impl Iterator<Item = &'static str> {
        let texts: &[&'static str] = match self {
            Self::Acquire => &[lock::ACQUIRE, rw::ACQUIRE, semaphore::ACQUIRE],
            Self::Renew => &[lock::RENEW, rw::RENEW, semaphore::RENEW],
            Self::Release => &[lock::RELEASE, rw::RELEASE, semaphore::RELEASE],
            Self::Inspect => &[lock::INSPECT, rw::INSPECT, semaphore::INSPECT],
            Self::Take => &[rate::TAKE],
            Self::Set => &[latch::SET],
            Self::Count => &[latch::COUNT],
            Self::Down => &[latch::DOWN],
            Self::Limit => &[semaphore::LIMIT],
        };
        texts.iter().copied().map(changed_script)
    }

    /// Matches every call of this script, of any family.
    pub(crate) fn calls(self) -> impl Fn(&[Vec<u8>]) -> bool + Send + 'static {
        let known = |text: &str| [fred::util::sha1_hash(text), text.to_owned()];
        let known: Vec<[String; 2]> = self.texts().map(known).collect();
        move |words| {
            let by = ["EVALSHA", "EVAL"]
                .iter()
                .position(|name| words[0].eq_ignore_ascii_case(name.as_bytes()));
            by.is_some_and(|by| known.iter().any(|known| words[1] == known[by].as_bytes()))
        }
    }
}
