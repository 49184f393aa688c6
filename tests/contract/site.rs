//! Where the clients of a test meet.

use std::time::Duration;

use lockyard::{Client, ClientOptions};
use lockyard_memory::{MemoryServer, Value};
use lockyard_testkit::Server;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{WAITER_TIMEOUT, connect};

/// A server of its own, or one in memory on virtual time.
pub(crate) enum Site {
    Server(Box<Server>),
    Memory(MemoryServer),
}

impl Site {
    pub(crate) fn server() -> Self {
        Self::Server(Box::new(Server::start().unwrap()))
    }

    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryServer::new())
    }

    /// A client that waits for short times, as tests do.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(|options| options.waiter_timeout(WAITER_TIMEOUT))
            .await
    }

    /// A client whose waiters look so seldom that only messages can let them in soon.
    pub(crate) async fn patient(&self) -> Client {
        self.client_with(|options| options.waiter_timeout(Duration::from_secs(600)))
            .await
    }

    pub(crate) async fn client_with(
        &self,
        change: impl FnOnce(ClientOptions) -> ClientOptions,
    ) -> Client {
        match self {
            Self::Server(server) => connect(&server.url(), change).await.unwrap(),
            Self::Memory(server) => server
                .client_with(change(ClientOptions::default()))
                .unwrap(),
        }
    }

    /// All keys, in order.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.all_keys()
    }

    /// The ids that hold, as they stand in a lock's hash or among permits.
    pub(crate) fn holds(&self, key: &str) -> Vec<String> {
        match self {
            Self::Server(server) => {
                match server.query::<String>(&["TYPE", key]).unwrap().as_str() {
                    "zset" => server.query(&["ZRANGE", key, "0", "-1"]).unwrap(),
                    _ => server.query(&["HKEYS", key]).unwrap(),
                }
            }
            Self::Memory(server) => {
                let entry = server.dump().into_iter().find(|entry| entry.key == key);
                match entry.map(|entry| entry.value) {
                    Some(Value::Hash(fields)) => fields
                        .into_iter()
                        .map(|(id, _)| String::from_utf8(id.into()).unwrap())
                        .collect(),
                    Some(Value::SortedSet(members)) => members
                        .into_iter()
                        .map(|(id, _)| String::from_utf8(id.into()).unwrap())
                        .collect(),
                    _ => Vec::new(),
                }
            }
        }
    }

    pub(crate) fn flush_all(&self) {
        match self {
            Self::Server(server) => server.flush_all().unwrap(),
            Self::Memory(server) => server.flush_all(),
        }
    }
}

/// Runs a test on random values, each at a site of its own; in memory time passes when nothing else is to be done.
pub(crate) fn try_at<S: Strategy>(
    cases: u32,
    site: fn() -> Site,
    values: &S,
    test: &impl AsyncFn(&Site, S::Value),
) {
    let failure_persistence = None;
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence,
        // Each failing run waits in vain, on a server for ten seconds.
        max_shrink_time: 60_000,
        ..Config::default()
    });
    let result = runner.run(values, |value| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let site = site();
            if matches!(site, Site::Memory(_)) {
                tokio::time::pause();
            }
            test(&site, value).await;
        });
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// What has keys.
pub(crate) trait Keys {
    /// All of them, in order.
    fn all_keys(&self) -> Vec<String>;
}

impl Keys for Server {
    fn all_keys(&self) -> Vec<String> {
        self.keys("*").unwrap()
    }
}

impl Keys for Site {
    fn all_keys(&self) -> Vec<String> {
        match self {
            Self::Server(server) => server.all_keys(),
            Self::Memory(server) => {
                let keys = server.dump().into_iter().map(|entry| entry.key);
                keys.map(|key| String::from_utf8(key.into()).unwrap())
                    .collect()
            }
        }
    }
}
