use std::fs;
use std::time::Duration;

use lockyard::{Client, ClientOptions, Waiting};
use lockyard_testkit::{Server, eventually_async};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::contract::leaks::options;
use crate::process::alone;
use crate::support::{SOON, connect_in_the_end, drop_after, soon};

/// A runtime that does not keep the threads on which it looked up addresses.
fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder
        .enable_all()
        .thread_keep_alive(Duration::from_millis(1))
        .build()
        .unwrap()
}

/// What this process and the server have at the moment: threads, open files, connections.
fn costs(server: &Server) -> (usize, usize, usize) {
    let threads = fs::read_dir("/proc/self/task").unwrap().count();
    let files = fs::read_dir("/proc/self/fd").unwrap().count();
    let connections: String = server.query(&["CLIENT", "LIST"]).unwrap();
    (threads, files, connections.lines().count())
}

/// Creates and drops fifty clients, at work and not.
async fn come_and_go(url: String) {
    for round in 0..50 {
        let options = ClientOptions::from_url(&url).unwrap();
        let options = options.operation_timeout(Duration::from_secs(2));
        let options = if round % 4 == 0 {
            options.waiting(Waiting::Spin)
        } else {
            options
        };
        let client = connect_in_the_end(options).await;
        if round % 2 == 0 {
            let lock = client.lock("x");
            let guard = soon(lock.acquire()).await.unwrap();
            let waits = Duration::from_millis(round % 5);
            assert!(timeout(waits, lock.acquire()).await.is_err());
            drop(guard);
        }
        if round % 3 == 0 {
            soon(client.shutdown()).await.unwrap();
        }
    }
}

// Red without the end of the watchdog's thread.
#[test]
fn clients_that_are_gone_cost_nothing() {
    if !alone("costs::clients_that_are_gone_cost_nothing") {
        return;
    }
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let before = costs(&server);
        let few_at_a_time = (0..4).map(|_| tokio::spawn(come_and_go(server.url())));
        for clients in few_at_a_time.collect::<Vec<_>>() {
            clients.await.unwrap();
        }
        eventually_async(SOON, async || costs(&server) == before).await;
    });
}

#[test]
fn connecting_leaves_nothing_wherever_it_is_dropped() {
    if !alone("costs::connecting_leaves_nothing_wherever_it_is_dropped") {
        return;
    }
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let before = costs(&server);
        for polls in 0.. {
            let completed = drop_after(polls, Client::with_options(options(&server.url())))
                .await
                .is_some();
            eventually_async(SOON, async || costs(&server) == before).await;
            if completed {
                assert!(polls > 1);
                return;
            }
        }
    });
}

#[test]
fn a_client_that_cannot_connect_costs_nothing() {
    if !alone("costs::a_client_that_cannot_connect_costs_nothing") {
        return;
    }
    let server = Server::builder()
        .password("right")
        .acl("user nobody on >nobody +@all")
        .start()
        .unwrap();
    let port = server.port().unwrap();
    runtime().block_on(async {
        let before = costs(&server);
        for _ in 0..20 {
            let wrong = format!("redis://:wrong@127.0.0.1:{port}");
            assert!(soon(Client::connect(&wrong)).await.is_err());
            assert!(soon(Client::connect("redis://127.0.0.1:1")).await.is_err());
        }
        eventually_async(SOON, async || costs(&server) == before).await;
    });
}

/// The memory of this process, in KiB.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Acquires and releases a lock of each of these names, some at a time.
async fn use_names(client: &Client, names: std::ops::Range<u64>) {
    const AT_A_TIME: u64 = 50;
    for from in names.step_by(AT_A_TIME as usize) {
        let tasks = (from..from + AT_A_TIME).map(|name| {
            let lock = client.lock(format!("name:{name}"));
            tokio::spawn(async move { lock.acquire().await?.release().await })
        });
        for task in tasks.collect::<Vec<_>>() {
            // The operation timeout is short for a busy machine.
            let _ = task.await.unwrap();
        }
    }
}

// Red if `State::finish` keeps the id.
#[test]
fn memory_does_not_grow_with_the_number_of_names() {
    if !alone("costs::memory_does_not_grow_with_the_number_of_names") {
        return;
    }
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let options = options(&server.url()).operation_timeout(Duration::from_millis(500));
        let client = connect_in_the_end(options).await;
        use_names(&client, 0..4_000).await;
        let before = memory();
        use_names(&client, 4_000..16_000).await;
        let grown = memory().saturating_sub(before);
        // Some bytes for each name; what is known of one lock takes a kilobyte.
        assert!(grown < 6_000, "{grown} KiB more for 12 000 more names");
    });
}
